from __future__ import annotations

import hashlib
from pathlib import Path

from replay.replay_builders import make_png, make_session, make_step

from agentserve.browser.masked import MaskedComputer
from agentserve.core.actions import Click
from agentserve.core.elements import PageBox
from agentserve.core.sessions import Outcome
from agentserve.replay import Recorder, read_recording
from agentserve.testing.computer import ScriptedComputer


async def test_the_run_sees_what_is_recorded(tmp_path: Path):
    masks = (PageBox(x=10, y=20, width=30, height=40),)
    session = make_session()
    failed = Outcome(status="failed", message="no")
    scripted = ScriptedComputer([make_png(1)], outcomes=[failed])
    computer = MaskedComputer(scripted, masks, session.space.css)
    recorder = Recorder(tmp_path, masks=masks)
    await recorder.started(session, computer.url)
    seen = await computer.screenshot()
    assert seen != make_png(1)
    await recorder.screenshot(0, seen)
    await recorder.step(make_step(0, seen))
    (step,) = read_recording(recorder.folder).steps
    assert step.screenshot == step.result.screenshot == hashlib.sha256(seen).hexdigest()
    assert await computer.perform(Click(x=1, y=2)) == failed
    assert scripted.performed == [Click(x=1, y=2)]
    assert computer.url == scripted.url
