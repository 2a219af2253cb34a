"""Answers a question about a screen with yes or no, and a line that says why. It never acts.

The verdict comes first and from the model's probabilities alone (``sgl.select``); the reason is
written afterwards and cannot change it.
"""

import sglang as sgl

from agentserve.lang import screen

RULES = "You check web pages. Answer the question about the screen: yes or no, then why."
LINE = r"[^\n]{1,120}"


@sgl.function
def begin(s, task):
    s += sgl.system(RULES)


@sgl.function
def turn(s, view, instruction, feedback):
    s += sgl.user_begin() + screen(view)
    s += "Question: " + instruction
    s += sgl.user_end()

    s += sgl.assistant_begin()
    s += sgl.select("verdict", choices=["yes", "no"])
    s += ", because " + sgl.gen("reason", max_tokens=32, regex=LINE, temperature=0)
    s += sgl.assistant_end()
