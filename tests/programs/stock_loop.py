"""A stock SGLang program that loops by itself, in its user's own process.

It is not registered anywhere: it reaches the workers through the router's pass-through, by

    sgl.set_default_backend(RouterEndpoint("http://127.0.0.1:8300"))
"""

import sglang as sgl

ACTION = r"(click [0-9]{1,3} [0-9]{1,3}|done)"


@sgl.function
def work(s, observe, perform, goal, max_turns=5):
    """``observe()`` gives the screen as PNG bytes, ``perform(action)`` whether to go on."""
    s += sgl.system("You operate a web page.")
    for turn in range(max_turns):
        s += sgl.user(sgl.image(observe()) + goal)
        s += sgl.assistant(sgl.gen(f"action_{turn}", regex=ACTION, max_tokens=16, temperature=0))
        if not perform(s[f"action_{turn}"]):
            break
