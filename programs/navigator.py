"""Works a web page towards a goal: looks at the screen, thinks a sentence, gives one action.

The system text is the same in all sessions. What differs (the task, the instruction) stands behind
the first screen, so that everything before it is a prefix that sessions share.
"""

import sglang as sgl

from agentserve.lang import action, screen

RULES = """You operate a web page. Answer each screen with one line of thought and one action:
click X Y | double_click X Y | hover X Y | drag X Y X Y | scroll X Y DX DY | type "TEXT" |
key KEYS | wait SECONDS | navigate "URL" | back | done success "TEXT" | call_user "TEXT"
X Y are pixels of the screen."""


@sgl.function
def begin(s, task):
    s += sgl.system(RULES)


@sgl.function
def turn(s, view, instruction, feedback):
    s += sgl.user_begin() + screen(view)
    if feedback:
        s += feedback + "\n"
    if instruction:
        s += "Task: " + instruction
    s += sgl.user_end()

    s += sgl.assistant_begin()
    s += sgl.gen("thought", max_tokens=24, stop="\n", temperature=0)
    s += "\n" + action(view)
    s += sgl.assistant_end()
