"""What each dialect's texts mean, in the forms that models really write."""

from __future__ import annotations

import pytest

from agentserve.core.actions import (
    Back,
    CallUser,
    Click,
    Done,
    DoubleClick,
    Drag,
    Hover,
    Key,
    Scroll,
    Type,
    Wait,
)
from agentserve.core.actions.dialects import dialect_named, pixels
from agentserve.core.actions.recorded import Forward, KeyDown, KeyUp, Unsupported
from agentserve.core.errors import BadAction
from agentserve.core.screens import Size

SCREEN = Size(width=1000, height=500)


def read(name: str, said, pointer=None) -> list:
    dialect = dialect_named(name)
    return list(dialect.read(said, pixels(SCREEN, SCREEN), pointer))


def refused(name: str, said, words: str, pointer=None) -> None:
    with pytest.raises(BadAction, match=words):
        read(name, said, pointer)


UI_TARS = {
    "click(start_box='(197,52)')": [Click(x=197, y=52)],
    "click(start_box='<|box_start|>(197,52)<|box_end|>')": [Click(x=197, y=52)],
    "click(point='<point>197 52</point>')": [Click(x=197, y=52)],
    "click(start_box='[10, 20, 30, 40]')": [Click(x=20, y=30)],
    "click(start_box='(0,0)')": [Click(x=0, y=0)],
    "Thought: The Action: is clear.\nAction: left_double(point='<point>1 2</point>')": [
        DoubleClick(x=1, y=2)
    ],
    "right_single(start_box='<bbox>10 20 30 40</bbox>')": [Click(x=20, y=30, button="right")],
    "drag(start_box='(1,2)', end_box='(3,4)')": [Drag(x=1, y=2, to_x=3, to_y=4)],
    "drag(start_point='<point>1 2</point>', end_point='<point>3 4</point>')": [
        Drag(x=1, y=2, to_x=3, to_y=4)
    ],
    "hotkey(key='ctrl c')": [Key(keys="Control+c")],
    "hotkey(key='pagedown')": [Key(keys="PageDown")],
    "type(content='it's \"5\"\\n')": [Type(text='it\'s "5"\n')],
    'type(content="it\'s")': [Type(text="it's")],
    "scroll(point='<point>5 6</point>', direction='down')": [Scroll(x=5, y=6, dy=500)],
    "scroll(direction='left')": [Scroll(x=500, y=250, dx=-500)],
    "wait()": [Wait(seconds=5)],
    "finished()": [Done()],
    "finished(content='It's 5.')": [Done(text="It's 5.")],
    "call_user()": [CallUser()],
    "click(start_box='(1,2)')\n\ntype(content='x')": [Click(x=1, y=2), Type(text="x")],
    "hotkey(key='ctrl ++')": [
        KeyDown(key="Control"),
        KeyDown(key="+"),
        KeyUp(key="+"),
        KeyUp(key="Control"),
    ],
    "hotkey(key='page down')": [Key(keys="PageDown")],
    "hotkey(key='ctrl Page Up')": [Key(keys="Control+PageUp")],
    "type(content='a\n\nb')": [Type(text="a\n\nb")],
    "type(content='a\n\n')\n\nhotkey(key='enter')": [Type(text="a\n\n"), Key(keys="Enter")],
    "Action: click(start_box='(1,2)')<|im_end|>\n": [Click(x=1, y=2)],
    "type(content='<|im_end|>')<|im_end|>": [Type(text="<|im_end|>")],
    "press_home()": [Unsupported(what='press_home {"values": []}')],
}


@pytest.mark.parametrize(("said", "actions"), UI_TARS.items(), ids=UI_TARS)
def test_ui_tars(said, actions):
    assert read("ui_tars_v1_5", said) == actions


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("click(start_box='=')", r"must be '\(x,y\)'"),
        ("click(start_box='(1000,2)')", "outside the screen"),
        ("click(start_box='(1,2,3)')", "must be"),
        ("click()", "needs a point"),
        ("type(content='a\n\nb", "cannot be read"),
        ("clack(start_box='(1,2)')", "unknown action 'clack'"),
        ("scroll(start_box='(1,2)', direction='in')", "no direction"),
        ("click(start_box='(1,2)', why='so')", "does not take 'why'"),
        ("click(start_box='(1,2", "cannot be read"),
        ("Thought: I click.", "cannot be read"),
    ],
)
def test_ui_tars_refuses(said, words):
    refused("ui_tars_v1", said, words)


def call(**arguments) -> dict:
    return {"name": "computer_use", "arguments": arguments}


def test_qwen():
    text = (
        'I see.\n<tool_call>\n{"name": "computer_use", "arguments": {"action": "mouse_move", '
        '"coordinate": [10, 20]}}\n</tool_call>\n<tool_call>\n{"name": "computer_use", '
        '"arguments": {"action": "left_click_drag", "coordinate": [30, 40]}}\n</tool_call>'
    )
    assert read("qwen3_vl", text) == [Drag(x=10, y=20, to_x=30, to_y=40)]
    assert read("qwen3_vl", text + "<|im_end|>") == read("qwen3_vl", text)
    cut = text.removesuffix("\n</tool_call>") + "\n<|im_end|>"
    assert read("qwen3_vl", cut) == read("qwen3_vl", text)
    wheel = call(action="scroll", pixels=-80)
    assert read("qwen3_vl", wheel) == [Scroll(x=500, y=250, dy=80)]
    assert read("qwen3_vl", wheel, (1, 2)) == [Scroll(x=1, y=2, dy=80)]
    assert read("qwen3_vl", call(action="hscroll", pixels=80)) == [Scroll(x=500, y=250, dx=80)]
    assert read("qwen3_vl", {"action": "key", "keys": ["ctrl", "s"]}) == [Key(keys="Control+s")]
    assert read("qwen3_vl", {"arguments": '{"action": "wait", "time": 1.2}'}) == [Wait(seconds=2)]
    assert read("qwen3_vl", call(action="answer", text="42")) == [Done(text="42")]
    triple = call(action="triple_click", coordinate=[1, 2])
    assert read("qwen3_vl", triple) == [Unsupported(what='triple_click {"coordinate": [1, 2]}')]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (call(action="left_click_drag", coordinate=[1, 2]), "begins where the mouse is"),
        (call(action="left_click", coordinate=["1", 2]), "must be a number"),
        (call(action="left_click", coordinate=[True, 2]), "must be a number"),
        (call(action="left_click", coordinate=[1]), r"must be \[x, y\]"),
        (call(action="left_click", coordinate=[1, 500]), "outside the screen"),
        (call(action="terminate", status="maybe"), "success or failure"),
        (call(action="wait", time=10_000), "cannot wait"),
        (call(action="scroll", pixels=1_000_000), "cannot scroll"),
        ({"name": "other", "arguments": {}}, "no tool 'other'"),
        ("no tool call", "not JSON"),
        ("[1]", "must be a JSON object"),
    ],
)
def test_qwen_refuses(said, words):
    refused("qwen2_5_vl", said, words)


OPENAI = [
    ({"type": "click", "button": "left", "x": 1, "y": 2}, [Click(x=1, y=2)]),
    ({"type": "click", "button": "wheel", "x": 1, "y": 2}, [Click(x=1, y=2, button="middle")]),
    ({"type": "click", "button": "back", "x": 1, "y": 2}, [Back()]),
    ({"type": "click", "button": "forward", "x": 1, "y": 2}, [Forward()]),
    ({"type": "click", "button": "left", "x": 1, "y": 2, "keys": ["SHIFT"]},
     [KeyDown(key="Shift"), Click(x=1, y=2), KeyUp(key="Shift")]),
    ({"type": "double_click", "x": 1, "y": 2}, [DoubleClick(x=1, y=2)]),
    ({"type": "drag", "path": [{"x": 0, "y": 0}, {"x": 5, "y": 6}, {"x": 10, "y": 10}]},
     [Drag(x=0, y=0, to_x=10, to_y=10)]),
    ({"type": "drag", "path": [[0, 0], [90, 0], [0, 90]]},
     [Unsupported(what='drag along a bent path {"path": [[0, 0], [90, 0], [0, 90]]}')]),
    ({"type": "keypress", "keys": ["CTRL", "A"]}, [Key(keys="Control+a")]),
    ({"type": "move", "x": 1, "y": 2}, [Hover(x=1, y=2)]),
    ({"type": "screenshot"}, [Unsupported(what="screenshot")]),
    ({"type": "scroll", "x": 1, "y": 2, "scroll_x": 0, "scroll_y": -90},
     [Scroll(x=1, y=2, dy=-90)]),
    ({"type": "type", "text": "hi"}, [Type(text="hi")]),
    ({"type": "wait"}, [Wait(seconds=1)]),
    ({"type": "wait", "ms": 2500}, [Wait(seconds=3)]),
]  # fmt: skip


@pytest.mark.parametrize(("said", "actions"), OPENAI, ids=lambda one: str(one)[:40])
def test_openai(said, actions):
    assert read("openai", said) == actions
    assert read("openai", {"type": "computer_call", "call_id": "c", "action": said}) == actions
    assert read("openai", {"type": "computer_call", "actions": [said, said]}) == actions * 2


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"type": "click", "button": "fourth", "x": 1, "y": 2}, "no button"),
        ({"type": "click", "x": 1}, "must be a number"),
        ({"type": "drag", "path": [{"x": 1, "y": 2}]}, "list of points"),
        ({"type": "drag", "path": [{"x": 1, "y": 2}, {"x": 1000, "y": 2}]}, "outside"),
        ({"type": "keypress", "keys": "a"}, "must be a list"),
        ({"type": "fly"}, "unknown action 'fly'"),
        ({"actions": []}, "no action"),
        ({"actions": "click"}, "list of actions"),
    ],
)
def test_openai_refuses(said, words):
    refused("openai", said, words)


ANTHROPIC = [
    ({"action": "left_click", "coordinate": [1, 2]}, [Click(x=1, y=2)]),
    ({"action": "left_click", "coordinate": [1, 2], "text": "ctrl+shift"},
     [KeyDown(key="Control"), KeyDown(key="Shift"), Click(x=1, y=2), KeyUp(key="Shift"),
      KeyUp(key="Control")]),
    ({"action": "right_click"}, [Click(x=7, y=8, button="right")]),
    ({"action": "left_click_drag", "start_coordinate": [1, 2], "coordinate": [3, 4]},
     [Drag(x=1, y=2, to_x=3, to_y=4)]),
    ({"action": "left_click_drag", "coordinate": [3, 4]}, [Drag(x=7, y=8, to_x=3, to_y=4)]),
    ({"action": "key", "text": "Return"}, [Key(keys="Enter")]),
    ({"action": "key", "text": "ctrl+Page_Down"}, [Key(keys="Control+PageDown")]),
    ({"action": "key", "text": "ctrl++"},
     [KeyDown(key="Control"), KeyDown(key="+"), KeyUp(key="+"), KeyUp(key="Control")]),
    ({"action": "key", "text": "Tab Tab"}, [Key(keys="Tab"), Key(keys="Tab")]),
    ({"action": "key", "text": "Down", "repeat": 2}, [Key(keys="ArrowDown")] * 2),
    ({"action": "hold_key", "text": "shift", "duration": 1.5},
     [KeyDown(key="Shift"), Wait(seconds=2), KeyUp(key="Shift")]),
    ({"action": "scroll", "coordinate": [1, 2], "scroll_direction": "up", "scroll_amount": 3},
     [Scroll(x=1, y=2, dy=-300)]),
    ({"action": "scroll", "scroll_direction": "right", "scroll_amount": 1},
     [Scroll(x=7, y=8, dx=100)]),
    ({"action": "wait", "duration": 45}, [Wait(seconds=30), Wait(seconds=15)]),
    ({"action": "left_mouse_down"}, [Unsupported(what="left_mouse_down")]),
    ({"action": "screenshot"}, [Unsupported(what="screenshot")]),
    ({"action": "zoom", "region": [1, 2, 3, 4]},
     [Unsupported(what='zoom {"region": [1, 2, 3, 4]}')]),
    ({"action": "triple_click", "coordinate": [1, 2]},
     [Unsupported(what='triple_click {"coordinate": [1, 2]}')]),
]  # fmt: skip


@pytest.mark.parametrize(("said", "actions"), ANTHROPIC, ids=lambda one: str(one)[:50])
def test_anthropic(said, actions):
    assert read("anthropic", said, (7, 8)) == actions
    block = {"type": "tool_use", "id": "t", "name": "computer", "input": said}
    assert read("anthropic", block, (7, 8)) == actions


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"action": "left_click"}, "needs a point"),
        ({"action": "left_click", "coordinate": [1, 999]}, "outside"),
        ({"action": "key", "text": "hyper+x"}, "no key is called 'hyper'"),
        ({"action": "key", "text": ""}, "must name keys"),
        ({"action": "scroll", "scroll_direction": "in", "scroll_amount": 1}, "no direction"),
        ({"action": "scroll", "scroll_direction": "up", "scroll_amount": 1e6}, "cannot scroll"),
        ({"name": "bash", "input": {}}, "no tool 'bash'"),
        ({"action": "juggle"}, "unknown action"),
    ],
)
def test_anthropic_refuses(said, words):
    refused("anthropic", said, words)


PYAUTOGUI = {
    "pyautogui.click(x=10, y=20)": [Click(x=10, y=20)],
    "pyautogui.click(10, 20, button='right')": [Click(x=10, y=20, button="right")],
    "pyautogui.click(10, 20, clicks=2, interval=0.1)": [DoubleClick(x=10, y=20)],
    "pyautogui.click([10, 20])": [Click(x=10, y=20)],
    "pyautogui.click()": [Click(x=7, y=8)],
    "import pyautogui\nimport time\npyautogui.moveTo(10, 20)\npyautogui.click()": [
        Click(x=10, y=20)
    ],
    "pyautogui.moveTo(10, 20, duration=0.5); time.sleep(0.5); pyautogui.click()": [
        Hover(x=10, y=20), Wait(seconds=1), Click(x=10, y=20)
    ],
    "pyautogui.moveTo(10, 20)\npyautogui.dragTo(30, 40, duration=1, button='left')": [
        Drag(x=10, y=20, to_x=30, to_y=40)
    ],
    "pyautogui.dragTo(30, 40)": [Drag(x=7, y=8, to_x=30, to_y=40)],
    "pyautogui.doubleClick(x=1, y=2)": [DoubleClick(x=1, y=2)],
    "pyautogui.rightClick(1, 2)": [Click(x=1, y=2, button="right")],
    "pyautogui.scroll(-5)": [Scroll(x=7, y=8, dy=500)],
    "pyautogui.scroll(3, x=1, y=2)": [Scroll(x=1, y=2, dy=-300)],
    "pyautogui.hscroll(-2, x=1, y=2)": [Scroll(x=1, y=2, dx=-200)],
    "pyautogui.write('a b')": [Type(text="a b")],
    "pyautogui.typewrite(message='a\\nb', interval=0.05)": [Type(text="a\nb")],
    "pyautogui.typewrite(['a', 'enter'])": [Key(keys="a"), Key(keys="Enter")],
    "pyautogui.write(r'C:\\Users')": [Type(text="C:\\Users")],
    "pyautogui.press('enter')": [Key(keys="Enter")],
    "pyautogui.press(['left', 'left'])": [Key(keys="ArrowLeft")] * 2,
    "pyautogui.press('tab', presses=3)": [Key(keys="Tab")] * 3,
    "pyautogui.hotkey('ctrl', 'shift', 't')": [Key(keys="Control+Shift+t")],
    "pyautogui.hotkey(['ctrl', 'c'])": [Key(keys="Control+c")],
    "pyautogui.hotkey(keys='esc')": [Key(keys="Escape")],
    "pyautogui.press('esc')<|im_end|>": [Key(keys="Escape")],
    "pyautogui.keyDown('shift')\npyautogui.keyUp('shift')": [
        KeyDown(key="Shift"), KeyUp(key="Shift")
    ],
    "WAIT": [Wait(seconds=1)],
    "DONE": [Done()],
    "FAIL": [Done(status="failure")],
    "```python\npyautogui.press('esc')\n```": [Key(keys="Escape")],
    "computer.wait()": [Wait(seconds=1)],
    "computer.terminate(status='failure')": [Done(status="failure")],
    "computer.terminate(status='success', answer='42')": [Done(text="42")],
    "computer.terminate(status=['success'])": [Done(status="failure")],
    "pyautogui.dragTo(30, 40, button=['left'])": [
        Unsupported(what='pyautogui.dragTo {"x": 30, "y": 40, "button": ["left"]}')
    ],
    "computer.triple_click(x=1, y=2)": [
        Unsupported(
            what='computer.triple_click of 3 clicks {"x": 1, "y": 2, "clicks": 3, "button": "left"}'
        )
    ],
    "pyautogui.mouseDown()": [Unsupported(what='pyautogui.mouseDown {"values": []}')],
    f"pyautogui.write('{'a' * 4001}')": [
        Type(text="a" * 2000), Type(text="a" * 2000), Type(text="a")
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("said", "actions"), PYAUTOGUI.items(), ids=[said[:40] for said in PYAUTOGUI]
)
def test_pyautogui(said, actions):
    assert read("pyautogui", said, (7, 8)) == actions


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("pyautogui.click()", "needs a point"),
        ("pyautogui.dragTo(1, 2)", "begins where the mouse is"),
        ("pyautogui.click(x=1000, y=1)", "outside"),
        ("pyautogui.click(x=a, y=1)", "plain numbers"),
        ("pyautogui.click(1, 2, 3, 4, 5, 6)", "takes 5 values"),
        ("pyautogui.click(1, 2, x=3)", "'x' twice"),
        ("pyautogui.click(**{})", "written out"),
        ("pyautogui.press('hyper')", "no key is called"),
        ("pyautogui.hotkey(keys=1.5)", "keys must be a list of texts, got 1.5"),
        ("pyautogui.hotkey()", "keys must be a list of texts"),
        ("pyautogui.scroll(82, x=1, y=2)", "cannot scroll 82 notches"),
        ("pyautogui.explode()", "no function"),
        ("os.system('ls')", "no function"),
        ("pyautogui.a.click(1, 2)", "by its name"),
        ("time.sleep(1e9)", "cannot wait"),
        ("for i in range(9): pyautogui.press('a')", "only calls"),
    ],
)
def test_pyautogui_refuses(said, words):
    refused("pyautogui", said, words)


def test_agentnet_points_are_fractions():
    dialect = dialect_named("agentnet")
    said = "pyautogui.click(x=0.328, y=0.47)"
    assert dialect.read(said, dialect.space(SCREEN)) == (Click(x=328, y=235),)


def test_points_are_of_the_picture_that_the_model_saw():
    """A model that saw a capture at a device pixel ratio of 2 points at twice the CSS px."""
    space = pixels(Size(width=2000, height=1000), SCREEN)
    said = {"type": "click", "button": "left", "x": 1001, "y": 400}
    assert dialect_named("openai").read(said, space) == (Click(x=500, y=200),)
    assert dialect_named("openai").write(Click(x=500, y=200), space)["x"] == 1001
