from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from replay.replay_builders import DONE, make_png, make_result, make_session, make_step

from agentserve.core.actions.recorded import Resize
from agentserve.core.elements import PageBox
from agentserve.core.errors import RecordingError
from agentserve.core.pruning import Pruning
from agentserve.core.screens import Size
from agentserve.core.sessions import TokenMap
from agentserve.replay import Recorder, RecordingWriter, read_recording
from agentserve.replay.bundle.format import StepLine
from agentserve.replay.bundle.verify import verify
from agentserve.replay.redaction.redaction import Redaction
from agentserve.vision.masks import MASK_COLOUR

MASK = PageBox(x=10, y=20, width=30, height=40)


def pixels(png: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(png)) as image:
        return np.asarray(image.convert("RGB"))


async def test_masks_are_painted_before_anything_is_written(tmp_path: Path):
    """The mask is told in CSS px of 160x210 and painted in px of the picture, which has 224x280."""
    recorder = Recorder(tmp_path, masks=[MASK])
    await recorder.started(make_session(), "about:blank")
    await recorder.screenshot(0, make_png(3))
    await recorder.step(make_step(0, make_png(3)))
    await recorder.ended(DONE)
    recording = read_recording(recorder.folder)
    assert recording.meta.masks == [MASK]
    (path,) = (recorder.folder / "screenshots").iterdir()
    after = pixels(path.read_bytes())
    assert (after[26:80, 14:56] == MASK_COLOUR).all()
    assert (after == MASK_COLOUR).all(axis=2).sum() == 54 * 42
    assert (after[:26] == pixels(make_png(3))[:26]).all()
    assert verify(recorder.folder) == []


async def test_heat_maps_are_drawn_on_the_masked_picture(tmp_path: Path):
    recorder = Recorder(tmp_path, masks=[MASK])
    session = make_session(policy="mosaic", pruning=Pruning(method="fastv", ratio=0.5))
    await recorder.started(session, "about:blank")
    await recorder.screenshot(0, make_png(3))
    tokens = TokenMap(rows=1, columns=1, sent="AA==", live="gA==")
    await recorder.step(make_step(0, result=make_result(0, token_map=tokens)))
    after = pixels((recorder.folder / "heatmaps/0000.png").read_bytes())
    assert (after[26:80, 14:56] == MASK_COLOUR).all()


def test_a_resized_viewport_moves_no_mask(recording, tmp_path: Path):
    meta = recording.meta.model_copy(update={"id": "resized"})
    writer = RecordingWriter(tmp_path, meta, Redaction(masks=(MASK,)))
    writer.append(StepLine(index=0, url="", performed=Resize(size=Size(width=320, height=420))))
    sha = writer.add_screenshot(make_png(3, (448, 588)))
    after = pixels((writer.folder / f"screenshots/{sha}.png").read_bytes())
    assert (after[28:84, 14:56] == MASK_COLOUR).all()
    assert (after == MASK_COLOUR).all(axis=2).sum() == 56 * 42


def test_a_picture_that_cannot_be_masked_is_not_recorded(recording, tmp_path: Path):
    meta = recording.meta.model_copy(update={"id": "masked"})
    writer = RecordingWriter(tmp_path, meta, Redaction(masks=(MASK,)))
    with pytest.raises(RecordingError, match="damaged or cut off"):
        writer.add_screenshot(make_png(3)[:300])
    assert list((writer.folder / "screenshots").iterdir()) == []
