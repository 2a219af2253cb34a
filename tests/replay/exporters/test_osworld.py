import io
import json
from pathlib import Path

import pytest
from PIL import Image
from replay.importers.folders import (
    AGENTNET_BENCHMARK,
    OSWORLD,
    SCREEN,
    osworld_line,
    write_agentnet,
    write_osworld,
)
from replay.replay_builders import DONE, make_png, make_result, make_step, record

from agentserve.core.actions import Back, CallUser, Click, Done, Key, Navigate, Scroll, Type
from agentserve.core.actions.recorded import (
    ClickElement,
    CloseTab,
    Fill,
    HoverElement,
    OpenTab,
    Unsupported,
)
from agentserve.core.elements import ElementTarget, PageBox
from agentserve.core.errors import RecordingError
from agentserve.core.screens import Size
from agentserve.core.sessions import InvalidAction, Outcome
from agentserve.replay import Recording, read_recording
from agentserve.replay.bundle.format import StepLine
from agentserve.replay.exporters import osworld
from agentserve.replay.exporters.given import Given
from agentserve.replay.importers import agentnet
from agentserve.replay.importers import osworld as importer
from agentserve.replay.importers.taken import Taken, write_taken


def bundle(root: Path, taken: Taken) -> Recording:
    return read_recording(write_taken(root, "bundle", taken))


def lines_of(given: Given) -> list[dict]:
    return [json.loads(line) for line in given.files["traj.jsonl"].decode().splitlines()]


@pytest.mark.parametrize("first", [False, True])
def test_osworld_comes_back_as_it_was(tmp_path, first):
    folder = write_osworld(tmp_path / "run")
    if first:
        (folder / "step_0.png").write_bytes(make_png(99, SCREEN))
    given = osworld.give(bundle(tmp_path, importer.take(folder)))
    assert lines_of(given) == OSWORLD
    kept = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".jsonl"}
    assert {name: data for name, data in given.files.items() if name != "traj.jsonl"} == kept
    assert given.lost == ()


def test_again_and_again(tmp_path):
    """What was written is taken over as the same recording."""
    taken = importer.take(write_osworld(tmp_path / "run"))
    given = osworld.give(bundle(tmp_path, taken))
    folder = tmp_path / "again"
    folder.mkdir()
    for name, data in given.files.items():
        (folder / name).write_bytes(data)
    assert importer.take(folder) == taken


def test_lines_without_an_action_and_without_a_picture_come_back(tmp_path):
    lines = [
        osworld_line(1, "WAIT", screenshot_file=None),
        {"Error": "Time limit exceeded"},
    ]
    taken = importer.take(write_osworld(tmp_path / "run", lines))
    assert lines_of(osworld.give(bundle(tmp_path, taken))) == lines


async def test_an_agents_recording(tmp_path):
    pngs = [make_png(shade) for shade in range(3)]
    actions = [Click(x=40, y=60), Scroll(x=40, y=60, dy=130), Done(text="It is done.")]
    steps = [
        (make_step(index, png, result=make_result(index, png, action=action)), png)
        for index, (png, action) in enumerate(zip(pngs, actions, strict=True))
    ]
    recorder = await record(tmp_path, steps, end=DONE, id="clean")
    given = osworld.give(read_recording(recorder.folder))
    lines = lines_of(given)
    # screens are 224x280, CSS px 160x210
    assert [line["action"] for line in lines] == [
        "pyautogui.click(x=56, y=80)",
        "pyautogui.scroll(-1, x=56, y=80)",
        "DONE",
    ]
    assert [line["done"] for line in lines] == [False, False, True]
    assert [line["reward"] for line in lines] == [0, 0, 1.0]
    assert lines[0]["response"] == "The button is there.\nclick 56 84"
    assert given.files["step_0.png"] == pngs[0]
    assert [given.files[line["screenshot_file"]] for line in lines[:2]] == pngs[1:]
    assert "screenshot_file" not in lines[2]
    assert given.files["result.txt"] == b"1.0\n"
    for words in (
        "step 2: there is no picture",
        "whole notches",
        "the text of its end",
        "the task",
        "what turns cost",
        "addresses of pages",
    ):
        assert any(words in sentence for sentence in given.lost), words


async def test_an_agents_recording_is_taken_over_by_our_own_importer(tmp_path):
    pngs = [make_png(shade) for shade in range(2)]
    steps = [(make_step(index, png), png) for index, png in enumerate(pngs)]
    recorder = await record(tmp_path, steps, end=DONE, id="clean")
    folder = tmp_path / "osworld"
    folder.mkdir()
    for name, data in osworld.give(read_recording(recorder.folder)).files.items():
        (folder / name).write_bytes(data)
    taken = importer.take(folder)
    assert taken.viewport == Size(width=224, height=280)
    assert [step.performed for step in taken.steps] == [Click(x=56, y=80), Click(x=58, y=80)]
    assert len(taken.screenshots) == 2 and taken.end is not None and taken.end.success is True


def taken_with(*performed, **step) -> Taken:
    steps = tuple(
        StepLine(index=index, url="", performed=action, **step)
        for index, action in enumerate(performed)
    )
    return Taken(format="test", viewport=Size(width=320, height=200), steps=steps)


BROWSER = [
    (
        Navigate(url="http://a.test/'"),
        "pyautogui.hotkey('ctrl', 'l')\npyautogui.write(\"http://a.test/'\")\n"
        "pyautogui.press('enter')",
    ),
    (
        OpenTab(url="about:blank"),
        "pyautogui.hotkey('ctrl', 't')\npyautogui.write('about:blank')\npyautogui.press('enter')",
    ),
    (CloseTab(), "pyautogui.hotkey('ctrl', 'w')"),
    (Back(), "pyautogui.hotkey('alt', 'left')"),
    (CallUser(text="captcha"), "WAIT"),
    (Fill(value="x"), "WAIT"),
    (Unsupported(what="fly"), "WAIT"),
    (None, "WAIT"),
]


@pytest.mark.parametrize(("action", "text"), BROWSER, ids=lambda one: str(one)[:30])
def test_what_a_desktop_says_otherwise_is_said(tmp_path, action, text):
    given = osworld.give(bundle(tmp_path, taken_with(action, Done())))
    assert [line["action"] for line in lines_of(given)] == [text, "DONE"]
    assert any(sentence.startswith("step 0: ") for sentence in given.lost)


@pytest.mark.parametrize(
    ("offset", "action", "text"),
    [
        (None, ClickElement(), "pyautogui.click(x=25, y=25, clicks=1, button='left')"),
        ((1, 2), HoverElement(), "pyautogui.moveTo(x=11, y=22)"),
        (
            None,
            ClickElement(clicks=3, modifiers=("Control", "Shift")),
            "pyautogui.keyDown('ctrl')\npyautogui.keyDown('shift')\n"
            "pyautogui.click(x=25, y=25, clicks=3, button='left')\n"
            "pyautogui.keyUp('shift')\npyautogui.keyUp('ctrl')",
        ),
        ((1000, 2), ClickElement(), "WAIT"),
    ],
)
def test_what_is_done_to_an_element_is_done_where_it_was(tmp_path, offset, action, text):
    target = ElementTarget(box=PageBox(x=10, y=20, width=30, height=10), offset=offset)
    given = osworld.give(bundle(tmp_path, taken_with(action, target=target)))
    assert lines_of(given)[0]["action"] == text
    assert given.lost


def test_a_fill_is_typed_over_the_field(tmp_path):
    target = ElementTarget(box=PageBox(x=10, y=20, width=30, height=10))
    given = osworld.give(bundle(tmp_path, taken_with(Fill(value="é'"), target=target)))
    assert lines_of(given)[0]["action"] == (
        "pyautogui.click(x=25, y=25)\npyautogui.hotkey('ctrl', 'a')\npyautogui.write(\"é'\")"
    )


async def test_an_invalid_answer_is_a_wait_with_its_reason(tmp_path):
    png = make_png(0)
    invalid = InvalidAction(text="fly", reason="unknown action 'fly'")
    result = make_result(0, png, action=None, model_action=None, invalid=invalid)
    step = make_step(
        0, png, result=result, performed=None, outcome=Outcome(status="invalid", message="unknown")
    )
    recorder = await record(tmp_path, [(step, png)], id="clean")
    given = osworld.give(read_recording(recorder.folder))
    (line,) = lines_of(given)
    assert line["action"] == "WAIT"
    assert line["info"] == {"status": "invalid", "message": "unknown"}
    assert "result.txt" not in given.files
    assert any("there is no result.txt" in sentence for sentence in given.lost)


def test_nothing_done_is_nothing_to_export(tmp_path):
    with pytest.raises(RecordingError, match="no step that OSWorld could hold"):
        osworld.give(bundle(tmp_path, taken_with(None)))


def test_a_name_that_is_taken_is_not_written_over(tmp_path):
    """The name that the second line would get by itself is that of the first line's picture."""
    taken = importer.take(write_osworld(tmp_path / "run"))
    steps = list(taken.steps)
    at = next(index for index, step in enumerate(steps) if index and "line" in step.origin)
    for index, name in ((0, "step_2.png"), (at, "../x.png")):
        line = {**steps[index].origin["line"], "screenshot_file": name, "action_timestamp": "/"}
        steps[index] = steps[index].model_copy(update={"origin": {"line": line}})
    given = osworld.give(bundle(tmp_path, Taken(**{**vars(taken), "steps": tuple(steps)})))
    names = [line["screenshot_file"] for line in lines_of(given)]
    assert names[:2] == ["step_2.png", "step_2_.png"]
    assert [given.files[name] for name in names[:2]] == [make_png(n, SCREEN) for n in range(2)]


def test_agentnet_as_osworld(tmp_path):
    taken = agentnet.take(write_agentnet(tmp_path / "task", AGENTNET_BENCHMARK))
    given = osworld.give(bundle(tmp_path, taken))
    lines = lines_of(given)
    assert lines[0]["action"] == "pyautogui.click(x=160, y=50)"
    assert lines[0]["response"].startswith("A browser.")
    size = Image.open(io.BytesIO(given.files[lines[0]["screenshot_file"]])).size
    assert size == SCREEN


@pytest.mark.parametrize(
    "name",
    ["../out.png", "/tmp/out.png", "traj.jsonl", "result.txt", "step_0.png", ".", "a\0.png", 5],
)
def test_names_in_a_bundle_are_no_paths(tmp_path, name):
    """A bundle may come from anywhere: its lines name files only as OSWorld does."""
    taken = importer.take(write_osworld(tmp_path / "run"))
    steps = list(taken.steps)
    line = {**steps[0].origin["line"], "screenshot_file": name, "action_timestamp": "../../x"}
    steps[0] = steps[0].model_copy(update={"origin": {"line": line}})
    hostile = Taken(**{**vars(taken), "steps": tuple(steps)})
    given = osworld.give(bundle(tmp_path, hostile))
    assert lines_of(given)[0]["screenshot_file"] == "step_1.png"
    assert all("/" not in one and one not in {".", ".."} for one in given.files)
    assert lines_of(given)[1:] == OSWORLD[1:]


def test_two_lines_that_name_one_picture_keep_both(tmp_path):
    taken = importer.take(write_osworld(tmp_path / "run"))
    steps = list(taken.steps)
    name = OSWORLD[0]["screenshot_file"]
    at = next(index for index, step in enumerate(steps) if index and "line" in step.origin)
    line = {**steps[at].origin["line"], "screenshot_file": name}
    steps[at] = steps[at].model_copy(update={"origin": {"line": line}})
    given = osworld.give(bundle(tmp_path, Taken(**{**vars(taken), "steps": tuple(steps)})))
    names = [line["screenshot_file"] for line in lines_of(given)]
    assert names[0] == name and names[1] != name
    assert given.files[name] == make_png(0, SCREEN)
    assert given.files[names[1]] == make_png(1, SCREEN)


AT = ElementTarget(box=PageBox(x=10, y=20, width=30, height=10))


def lost_of(tmp_path, *acts, **step) -> tuple[list[str], tuple[str, ...]]:
    given = osworld.give(bundle(tmp_path, taken_with(*acts, **step)))
    return [line["action"] for line in lines_of(given)], given.lost


def test_a_fill_of_nothing_empties_the_field(tmp_path):
    ((text,), _) = lost_of(tmp_path, Fill(value=""), target=AT)
    assert text == (
        "pyautogui.click(x=25, y=25)\npyautogui.hotkey('ctrl', 'a')\npyautogui.press('delete')"
    )


def test_a_fill_checks_no_box_and_that_is_told(tmp_path):
    _, lost = lost_of(tmp_path, Fill(value="true"), target=AT)
    assert "step 0: it types a text, it does not check a box" in lost


@pytest.mark.parametrize(
    "act", [Type(text="aé日é"), Fill(value="é日"), Navigate(url="http://a/é日"), OpenTab(url="é日")]
)
def test_what_pyautogui_has_no_keys_for_is_told(tmp_path, act):
    target = AT if isinstance(act, Fill) else None
    _, lost = lost_of(tmp_path, act, target=target)
    assert "step 0: PyAutoGUI has no keys for 'é日': they are not typed" in lost
    plain = "".join(map(chr, range(0x20, 0x7F))) + "\n\t"
    _, lost = lost_of(tmp_path / "plain", Type(text=plain))
    assert not any("no keys" in told for told in lost)


def test_keys_for_an_element_that_has_not_got_the_focus(tmp_path):
    acts = (Type(text="a"), Type(text="b"), Key(keys="Enter"), Key(keys="Tab"))
    texts, lost = lost_of(tmp_path, *acts, target=AT)
    assert texts == [
        "pyautogui.click(x=25, y=25)\npyautogui.write('a')",
        "pyautogui.write('b')",
        "pyautogui.press('enter')",
        "pyautogui.press('tab')",
    ]
    assert "step 0: it clicks the element before it types: keys of a desktop have none" in lost
    assert "step 3: its keys go to what has the focus, which may be another element" in lost
    assert not any(told.startswith(("step 1:", "step 2: its")) for told in lost if "keys" in told)


def test_secrets_are_told(tmp_path):
    _, lost = lost_of(tmp_path, Type(text="{{secret:PASSWORD}}"), Type(text="x"))
    stands = "the secret PASSWORD stands in it as {{secret:PASSWORD}}"
    assert f"step 0: {stands}, for which OSWorld fills in nothing" in lost


@pytest.mark.parametrize("ms", [1e300, 1e18, -1e18])
def test_a_time_that_no_calendar_has_is_told(tmp_path, ms):
    given = osworld.give(bundle(tmp_path, taken_with(Done(), step_ms=ms)))
    (line,) = lines_of(given)
    assert line["action_timestamp"]
    assert "step 0: when it was done is not known: it gets the recording's time" in given.lost
