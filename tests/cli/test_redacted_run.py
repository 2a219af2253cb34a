"""A run with a mask and a secret: a real browser, a real router, a scripted model."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image
from router.rig import running_rig

from agentserve.agents.run import Agent, PageTarget, Redacted, run_agent
from agentserve.browser.launch import launch_browser
from agentserve.browser.pages import serve_pages
from agentserve.cli.narrate import Narrator
from agentserve.core.actions import Type
from agentserve.core.blobs import tenant_folder
from agentserve.core.config import RunConfig
from agentserve.core.elements import PageBox
from agentserve.core.screens import Size
from agentserve.replay import read_recording
from agentserve.replay.bundle.verify import verify
from agentserve.replay.redaction.secrets import Secrets, revealed
from agentserve.testing.worker import FakeWorker
from agentserve.vision.masks import MASK_COLOUR

PAGE = """<!doctype html><meta charset="utf-8"><body style="margin:0">
<input autofocus style="position:absolute;left:20px;top:30px;width:200px;height:40px"
  oninput="history.replaceState(null, '', '?typed=' + encodeURIComponent(this.value))">"""
SECRET = "hunter2 & co!"
MASK = PageBox(x=20, y=30, width=220, height=50)


def masked_part(png: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(png)) as image:
        return np.asarray(image.convert("RGB"))[30:80, 20:240]


async def test_neither_recording_nor_router_has_what_is_kept_out(tmp_path: Path):
    said: list[str] = []
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "index.html").write_text(PAGE)
    async with (
        FakeWorker(answers=[f'type "{SECRET}"', f'done success "typed {SECRET}"']) as worker,
        running_rig(tmp_path / "router", [worker]) as rig,
        serve_pages(tmp_path / "pages") as base,
        launch_browser() as browser,
    ):
        finished = await run_agent(
            rig.client,
            browser,
            Agent(program="scripted"),
            PageTarget(
                url=f"{base}/index.html",
                task=f"Type {SECRET}",
                viewport=Size(width=280, height=280),
            ),
            RunConfig(max_turns=4),
            tmp_path / "recordings",
            observers=[Narrator(said.append, Secrets({"PASSWORD": SECRET}))],
            redacted=Redacted((MASK,), {"PASSWORD": SECRET}),
        )
    assert finished.summary.message == "typed {{secret:PASSWORD}}"
    assert 'type "{{secret:PASSWORD}}"' in said[1] and "hunter2" not in "".join(said)
    assert (finished.summary.end, finished.summary.turns) == ("done", 2)

    recording = read_recording(finished.recording)
    assert verify(finished.recording) == []
    assert (recording.meta.masks, recording.meta.secrets) == ([MASK], ["PASSWORD"])
    first, second = recording.steps
    assert first.performed == Type(text="{{secret:PASSWORD}}")
    assert revealed(first.performed, {"PASSWORD": SECRET}) == Type(text=SECRET)
    assert second.url == f"{base}/index.html?typed={{{{secret:PASSWORD}}}}"
    for file in finished.recording.rglob("*"):
        assert not file.is_file() or b"hunter2" not in file.read_bytes(), file

    blobs = tmp_path / "router" / "blobs" / tenant_folder("")
    for step in recording.steps:
        assert (masked_part(recording.screenshot(step.screenshot)) == MASK_COLOUR).all()
        assert step.result.screenshot == step.screenshot, "the router got what is recorded"
        sent = blobs / step.screenshot[:2] / step.screenshot
        assert (masked_part(sent.read_bytes()) == MASK_COLOUR).all()
