"""Fills a form: names what is still empty, then gives one action; done when nothing is.

It can only click, type, press keys, scroll and finish: a form needs no other action, and a smaller
grammar leaves a small model less room for mistakes.
"""

import sglang as sgl

from agentserve.lang import action, screen

KINDS = ("click", "type", "key", "scroll", "done")
RULES = """You fill a form. For each screen, name the fields that are still empty, then one action:
click X Y | type "TEXT" | key KEYS | scroll X Y DX DY | done success
Click a field, then type into it. Say done when no field is empty and the form is sent."""


@sgl.function
def begin(s, task):
    s += sgl.system(RULES)


@sgl.function
def turn(s, view, instruction, feedback):
    s += sgl.user_begin() + screen(view)
    if feedback:
        s += feedback + "\n"
    if instruction:
        s += "Fill in: " + instruction + "\n"
    s += "What is still empty?" + sgl.user_end()

    s += sgl.assistant_begin()
    s += "Empty: " + sgl.gen("empty", max_tokens=24, stop="\n", temperature=0)
    s += "\n" + action(view, kinds=KINDS)
    s += sgl.assistant_end()
