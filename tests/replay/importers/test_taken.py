"""What importers give is written whole, or not at all."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from replay.replay_builders import make_png

from agentserve.core.actions.recorded import ClickElement
from agentserve.core.elements import ElementTarget, PageBox, Selector
from agentserve.core.errors import RecordingError
from agentserve.core.screens import Size
from agentserve.replay import RecordingWriter, StepLine, read_recording
from agentserve.replay.bundle.format import MAX_LINE_BYTES
from agentserve.replay.bundle.verify import verify
from agentserve.replay.importers.taken import Taken, write_taken
from agentserve.replay.redaction.redaction import Redaction
from agentserve.replay.redaction.secrets import Secrets


def taken_of(*steps: StepLine, **more: object) -> Taken:
    return Taken(format="other", viewport=Size(width=10, height=10), steps=steps, **more)


def test_a_step_larger_than_a_line_is_refused_by_its_number(tmp_path: Path) -> None:
    chain = tuple(Selector(engine="css", value="é" * 2000) for _ in range(16))
    wide = ElementTarget(selectors=(chain,) * 32)
    steps = [StepLine(index=0, url=""), StepLine(index=1, url="", performed=ClickElement(),
                                                target=wide)]  # fmt: skip
    with pytest.raises(RecordingError, match=rf"step 1 has \d+ bytes; {MAX_LINE_BYTES} is most"):
        write_taken(tmp_path, "r", taken_of(*steps))
    assert list(tmp_path.iterdir()) == []


def test_more_than_a_reader_reads_is_refused(tmp_path: Path) -> None:
    steps = (StepLine(index=index, url="", origin="x" * 1_000_000) for index in range(70))
    with pytest.raises(RecordingError, match="the steps have 700"):
        write_taken(tmp_path, "r", taken_of(*steps))
    assert list(tmp_path.iterdir()) == []


def test_what_fails_while_it_is_written_is_taken_away(tmp_path: Path) -> None:
    step = StepLine(index=0, url="", screenshot="0" * 64)
    with pytest.raises(RecordingError, match="not added"):
        write_taken(tmp_path, "r", taken_of(step, screenshots={"0" * 64: make_png()}))
    assert list(tmp_path.iterdir()) == []


def test_masks_change_pictures_and_secrets_texts(tmp_path: Path) -> None:
    png = make_png(3)
    sha = hashlib.sha256(png).hexdigest()
    pin = {"pin": 87654321, "value": "hunter2!"}
    step = StepLine(index=0, url="http://a/?p=hunter2%21", screenshot=sha, origin=pin)
    taken = taken_of(step, screenshots={sha: png}, data={"title": "hunter2!"})
    secrets = Secrets({"PASSWORD": "hunter2!", "PIN": "87654321"})
    mask = PageBox(x=0, y=0, width=5, height=5)
    folder = write_taken(tmp_path, "r", taken, Redaction((mask,), secrets))
    again = read_recording(folder)
    assert again.meta.masks == [mask] and again.meta.secrets == ["PASSWORD", "PIN"]
    assert again.steps[0].screenshot not in (None, sha)
    assert again.steps[0].origin == {"pin": "{{secret:PIN}}", "value": "{{secret:PASSWORD}}"}
    assert not [found for found in verify(folder) if found.severity == "error"]
    for path in folder.rglob("*"):
        assert path.is_dir() or not any(v in path.read_bytes() for v in (b"hunter2", b"87654321"))


def test_an_interrupt_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    appended: list[StepLine] = []

    def append(writer: RecordingWriter, line: StepLine) -> None:
        if len(appended) == 2:
            raise KeyboardInterrupt
        appended.append(line)
        whole(writer, line)

    whole = RecordingWriter.append
    monkeypatch.setattr(RecordingWriter, "append", append)
    steps = [StepLine(index=index, url="") for index in range(4)]
    with pytest.raises(KeyboardInterrupt):
        write_taken(tmp_path, "r", taken_of(*steps))
    assert len(appended) == 2 and list(tmp_path.iterdir()) == []


def test_it_appears_under_its_name_when_all_of_it_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bool] = []
    fsync = os.fsync

    def counted(descriptor: int) -> None:
        synced.append((tmp_path / "r").exists())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", counted)
    png = make_png()
    sha = hashlib.sha256(png).hexdigest()
    steps = [StepLine(index=index, url="", screenshot=sha) for index in range(300)]
    folder = write_taken(tmp_path, "r", taken_of(*steps, screenshots={sha: png}))
    assert folder == tmp_path / "r" and [one.name for one in tmp_path.iterdir()] == ["r"]
    assert len(read_recording(folder).steps) == 300
    assert synced[-2:] == [False, True], "only its name is left to be made durable"
    assert len(synced) < 20, "an import waits for the disk once, not once a line"


def test_a_recording_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    write_taken(tmp_path, "r", taken_of(StepLine(index=0, url="")))
    with pytest.raises(RecordingError, match="cannot write the recording"):
        write_taken(tmp_path, "r", taken_of(*(StepLine(index=n, url="") for n in range(2))))
    assert len(read_recording(tmp_path / "r").steps) == 1
    assert [one.name for one in tmp_path.iterdir()] == ["r"]


@pytest.mark.parametrize(
    "target",
    [
        ElementTarget(offset=(1e308, 0)),
        ElementTarget(box=PageBox(x=-1e8, y=0, width=1, height=1)),
    ],
)
def test_what_a_reader_would_call_damaged_is_refused(tmp_path: Path, target: ElementTarget) -> None:
    steps = (StepLine(index=0, url=""), StepLine(index=1, url="", target=target))
    with pytest.raises(RecordingError, match="step 1: an element's box or offset is farther away"):
        write_taken(tmp_path, "r", taken_of(*steps))
    assert list(tmp_path.iterdir()) == []
