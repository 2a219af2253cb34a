import errno
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from replay.replay_builders import (
    DONE,
    SPACE,
    make_png,
    make_session,
    make_step,
    make_steps,
    record,
)

from agentserve import __version__
from agentserve.core.actions import Click, Done, Type
from agentserve.core.errors import BrowserFailed, RecordingError
from agentserve.core.runs import EndReason, Step
from agentserve.core.screens import Size
from agentserve.core.sessions import InvalidAction, Outcome, SessionCreate
from agentserve.core.workers import WorkerReport
from agentserve.replay import Recorder, Recording, RecordingWriter, ScenarioRef, read_recording
from agentserve.replay.bundle.format import EXPECT, MAX_EXPECT_BYTES, META, STEPS
from agentserve.replay.bundle.packing import pack
from agentserve.replay.bundle.verify import verify
from agentserve.replay.bundle.writer import write_expectations

KILLS = 80
WORKER = WorkerReport(
    version="0.1.0",
    sglang_version="0.5.23",
    boot_id="b1",
    hooks=[],
    model="nano",
    served_model_name="nano",
    architecture="Qwen2_5_VLForConditionalGeneration",
    context_length=4096,
    max_total_tokens=20_000,
    page_size=1,
    layers=6,
    device="cpu",
    tokenizer_sha256="0" * 64,
)


async def test_what_was_recorded_is_read_back(tmp_path: Path):
    """Every field of meta, steps and end, and the bytes of the screenshots."""
    steps = make_steps(3)
    odd = make_step(
        3,
        steps[0][1],
        result=steps[0][0].result.model_copy(
            update={
                "action": None,
                "invalid": InvalidAction(text="clack\n\u2028“x”", reason="unknown action"),
                "text": 'ünïcödé \\ " \x07 </script> 🖱',
            }
        ),
        outcome=Outcome(status="invalid", message="unknown action"),
    )
    steps.append((odd, steps[0][1]))
    recorder = await record(
        tmp_path,
        steps,
        end=DONE,
        scenario=ScenarioRef(name="click-button", seed=7),
        program_sha256="a" * 64,
        worker=WORKER,
    )
    recording = read_recording(recorder.folder)

    meta = recording.meta
    assert meta.id == recorder.id == recorder.folder.name
    assert meta.agentserve_version == __version__
    assert meta.url == "http://127.0.0.1:8000/"
    assert meta.scenario == ScenarioRef(name="click-button", seed=7)
    assert meta.session == SessionCreate(
        program="navigator",
        task="Click on the “Ok” button.",
        model="nano",
        viewport=Size(width=160, height=210),
        scale=1.4,
        policy="last:3",
        metadata={"suite": "tests"},
        timeout_s=1200.0,
        inactivity_timeout_s=60.0,
    )
    assert (meta.session_id, meta.space) == ("s_recorded", SPACE)
    assert (meta.program_sha256, meta.worker) == ("a" * 64, WORKER)
    assert recording.complete
    assert recording.end.model_dump(exclude={"type"}) == DONE.model_dump()
    assert len(recording.steps) == 4
    for line, (step, png) in zip(recording.steps, steps, strict=True):
        assert Step(**line.model_dump(include=set(Step.model_fields))) == step
        assert line.screenshot == hashlib.sha256(png).hexdigest()
        assert recording.screenshot(line.screenshot) == png


async def test_files_are_as_documented(recording: Recording):
    names = sorted(path.name for path in recording.path.iterdir())
    assert names == [META, "screenshots", STEPS]
    lines = (recording.path / STEPS).read_text().splitlines()
    assert [json.loads(line)["type"] for line in lines] == ["step", "step", "step", "end"]
    assert list(json.loads(lines[0]))[:4] == ["type", "index", "url", "screenshot"]
    text = (recording.path / META).read_text()
    assert list(json.loads(text))[:3] == ["schema_version", "id", "created_at"]
    assert text.endswith("}\n")
    assert "“Ok”" in text, "text stays readable, not escaped"


async def test_the_same_run_again_differs_only_where_documented(tmp_path: Path):
    """Merge-safe: nothing that changes by itself hides outside of its fields."""
    first = await record(tmp_path, make_steps(2), end=DONE, id="one")
    second = await record(tmp_path, make_steps(2), end=DONE, id="two")
    assert (first.folder / STEPS).read_bytes() == (second.folder / STEPS).read_bytes()
    one, two = (json.loads((r.folder / META).read_text()) for r in (first, second))
    assert {key for key in one if one[key] != two[key]} <= {"id", "created_at"}


async def _left() -> tuple[str, bytes]:
    return "http://127.0.0.1:8000/after", make_png(9)


async def _gone() -> tuple[str, bytes]:
    raise BrowserFailed("the browser is gone")


@pytest.mark.parametrize(
    ("end", "last", "left", "closes"),
    [
        ("task_ended", Click(x=1, y=1), _left, True),
        ("max_turns", Click(x=1, y=1), _left, True),
        ("max_turns", None, _left, False),  # nothing was done: its screen is the last
        ("done", Done(), _left, False),
        ("interrupted", Click(x=1, y=1), _left, False),
        ("task_ended", Click(x=1, y=1), _gone, False),
        ("task_ended", Click(x=1, y=1), None, False),
    ],
)
async def test_the_page_as_the_run_left_it_is_a_closing_step(
    tmp_path: Path, end: EndReason, last: Any, left: Any, closes: bool
) -> None:
    steps = make_steps(2)
    steps[-1] = (steps[-1][0].model_copy(update={"performed": last}), steps[-1][1])
    summary = DONE.model_copy(update={"end": end, "turns": 2})
    recorder = await record(tmp_path, steps, end=summary, left=left)
    recording = read_recording(recorder.folder)
    assert verify(recorder.folder) == []
    assert len(recording.taken) == len(recording.agent().turns) == 2
    assert len(recording.steps) == 2 + closes
    if closes:
        step = recording.steps[-1]
        assert step.url == "http://127.0.0.1:8000/after"
        assert recording.screenshot(step.screenshot or "") == make_png(9)


async def test_equal_screens_are_stored_once(tmp_path: Path):
    png = make_png(1)
    recorder = await record(tmp_path, [(make_step(i, png), png) for i in range(3)])
    assert len(list((recorder.folder / "screenshots").iterdir())) == 1
    assert len(read_recording(recorder.folder).steps) == 3


async def test_calls_out_of_order_are_refused(tmp_path: Path):
    recorder = Recorder(tmp_path)
    with pytest.raises(RecordingError, match="was not started"):
        await recorder.screenshot(0, make_png())
    await recorder.ended(DONE)
    assert os.listdir(tmp_path) == [], "a run that never started leaves nothing"

    await recorder.started(make_session(), "about:blank")
    await recorder.screenshot(0, make_png())
    with pytest.raises(RecordingError, match="step 1 came without its screenshot"):
        await recorder.step(make_step(1))
    assert read_recording(recorder.folder).steps == ()


async def test_only_png_within_the_limits_is_recorded(tmp_path: Path, monkeypatch):
    recorder = Recorder(tmp_path)
    await recorder.started(make_session(), "about:blank")
    for image in (b"", b"GIF89a" + b"\0" * 40, b"\xff\xd8\xff" + b"\0" * 40):
        with pytest.raises(RecordingError, match="not a PNG"):
            await recorder.screenshot(0, image)
    monkeypatch.setattr("agentserve.replay.bundle.writer.MAX_SCREENSHOT_BYTES", 100)
    with pytest.raises(RecordingError, match="100 is most"):
        await recorder.screenshot(0, make_png())
    assert list((recorder.folder / "screenshots").iterdir()) == []


async def test_a_recording_is_never_written_over(recording: Recording):
    before = (recording.path / STEPS).read_bytes()
    again = Recorder(recording.path.parent, id=recording.meta.id)
    with pytest.raises(RecordingError, match="cannot write the recording"):
        await again.started(make_session(), "about:blank")
    assert (recording.path / STEPS).read_bytes() == before
    assert [path.name for path in recording.path.parent.iterdir()] == [recording.meta.id]


async def test_a_full_disk_leaves_whole_lines(tmp_path: Path, monkeypatch):
    recorder = await record(tmp_path, make_steps(2))
    before = (recorder.folder / STEPS).read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    await recorder.screenshot(2, make_png(2))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(RecordingError, match="No space left"):
            await recorder.step(make_step(2))
        with pytest.raises(RecordingError, match="No space left"):
            await recorder.screenshot(3, make_png(3))
    assert (recorder.folder / STEPS).read_bytes() == before
    assert len(list((recorder.folder / "screenshots").iterdir())) == 3
    await recorder.step(make_step(2))
    assert len(read_recording(recorder.folder).steps) == 3


async def test_a_line_must_follow_its_screenshot(recording: Recording, tmp_path: Path):
    meta = recording.meta.model_copy(update={"id": "copy"})
    writer = RecordingWriter(tmp_path, meta)
    with pytest.raises(RecordingError, match="was not added"):
        writer.append(recording.steps[0])
    writer.add_screenshot(recording.screenshot(recording.steps[0].screenshot))
    writer.append(recording.steps[0])
    assert read_recording(tmp_path / "copy").steps == recording.steps[:1]


async def test_long_lines_are_refused_before_they_are_written(tmp_path: Path):
    recorder = await record(tmp_path, make_steps(1))
    await recorder.screenshot(1, make_png(1))
    result = make_step(1).result.model_copy(update={"text": "x" * (1024 * 1024)})
    with pytest.raises(RecordingError, match="step line"):
        await recorder.step(make_step(1, result=result, performed=Click(x=1, y=1)))
    await recorder.step(make_step(1, performed=Type(text="x")))
    assert len(read_recording(recorder.folder).steps) == 2


def test_kill_9_at_any_moment_leaves_a_readable_recording(tmp_path: Path):
    """Processes that record without pause are killed at random moments. What they had been told is
    recorded, is there; what is there, is whole."""
    script = Path(__file__).with_name("killed_recorder.py")
    ended = subprocess.run(
        [sys.executable, script, tmp_path, str(KILLS)],
        check=True,
        timeout=240,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    promises = json.loads(ended.stdout)
    assert len(promises) == KILLS and max(promises) >= 3
    for number, promised in enumerate(promises):
        folder = tmp_path / f"run-{number}"
        if not folder.exists():
            assert promised == -1, "a run that was said to be recorded is not"
            continue
        recording = read_recording(folder)
        assert not recording.complete
        # one more may be on the disk, whose promise had not been sent
        assert 0 <= len(recording.steps) - max(promised, 0) <= 1
        for step in recording.steps:
            recording.screenshot(step.screenshot)


def test_expectations_are_written_into_folders_only(recording: Recording, tmp_path: Path):
    write_expectations(recording.path, b"{}")
    write_expectations(recording.path, b'{"schema_version": 1}')
    assert (recording.path / EXPECT).read_bytes() == b'{"schema_version": 1}'
    for wrong in (b"[]", b"", b"\xff", b"{" + b" " * MAX_EXPECT_BYTES + b"}"):
        with pytest.raises(RecordingError, match=r"expect\.json"):
            write_expectations(recording.path, wrong)
    archive = tmp_path / "packed.zip"
    pack(recording.path, archive)
    with pytest.raises(RecordingError, match="no folder with a recording") as caught:
        write_expectations(archive, b"{}")
    assert "recording unpack" in caught.value.hint
    assert (recording.path / EXPECT).read_bytes() == b'{"schema_version": 1}'


def test_optional_entries_are_checked_before_they_are_written(recording: Recording, tmp_path: Path):
    writer = RecordingWriter(tmp_path, recording.meta.model_copy(update={"id": "copy"}))
    for har in (b"", b"[]", b'{"log": {"version": "1.2", "entries": [{}]}}'):
        with pytest.raises(RecordingError):
            writer.set_network(har)
    with pytest.raises(RecordingError, match="an aria snapshot of"):
        writer.add_aria("x" * (1024 * 1024 + 1))
    step = recording.steps[0].model_copy(update={"screenshot": None, "aria": "a" * 64})
    with pytest.raises(RecordingError, match="names an aria snapshot that was not added"):
        writer.append(step)
    assert {path.name for path in writer.folder.iterdir()} == {META, STEPS, "screenshots"}
    sha = writer.add_aria("- button “Ok”")
    assert writer.add_aria("- button “Ok”") == sha
    writer.append(step.model_copy(update={"aria": sha}))
    assert read_recording(writer.folder).aria(sha) == "- button “Ok”"


def test_an_interrupt_leaves_whole_lines(
    recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Ctrl-C may come anywhere: in the middle of a line, of a picture, of the recording's begin."""
    meta = recording.meta.model_copy(update={"id": "copy"})
    writer = RecordingWriter(tmp_path, meta)
    step = recording.steps[0].model_copy(update={"screenshot": None})
    writer.append(step)

    def interrupted(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        writer.append(step.model_copy(update={"index": 1}))
    with pytest.raises(KeyboardInterrupt):
        writer.add_screenshot(recording.screenshot(recording.steps[0].screenshot))
    assert read_recording(writer.folder).steps == (step,)
    assert list((writer.folder / "screenshots").iterdir()) == []
    with pytest.raises(KeyboardInterrupt):
        RecordingWriter(tmp_path / "other", meta)
    assert list((tmp_path / "other").iterdir()) == []


def test_steps_of_too_many_values_are_refused_before_they_are_read(recording: Recording) -> None:
    steps = recording.path / STEPS
    first = json.loads(steps.read_text().splitlines()[0])
    lines = [
        json.dumps({**first, "index": index, "origin": None}).replace(
            '"origin": null', '"origin": [' + "[]," * 330_000 + "[]]"
        )
        for index in range(7)
    ]
    steps.write_text("\n".join(lines) + "\n")
    with pytest.raises(RecordingError, match=r"steps\.jsonl: too many values"):
        read_recording(recording.path)
