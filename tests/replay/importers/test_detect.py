"""Formats are told apart by content."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from replay.flows import every_step

from agentserve.core.errors import InvalidRequest, RecordingError
from agentserve.replay.bundle.packing import pack
from agentserve.replay.importers import sources
from agentserve.replay.importers.detect import take
from agentserve.replay.importers.formats import FORMATS, ImportFormat
from agentserve.replay.importers.taken import write_taken


def test_names_say_nothing(tmp_path: Path) -> None:
    flow = tmp_path / "trace.zip"
    flow.write_text(json.dumps(every_step()))
    assert take(flow).format == "chrome-recorder"


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"\0" * 100, b"PK\x03\x04", b'{"a":1}\n{"b":2}\n', b"{" * 70_000, b"hello\n"],
    ids="empty object zeros zip lines deep text".split(),
)  # fmt: skip
def test_what_is_of_no_format_names_those_known(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "what.bin"
    path.write_bytes(data)
    with pytest.raises(RecordingError, match=r"what\.bin is a recording of no known format") as no:
        take(path)
    for known in FORMATS:
        assert known.name in no.value.hint


def test_a_folder_of_something_else_is_of_no_format(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(RecordingError, match="of no known format"):
        take(tmp_path)


def test_a_format_that_is_named_tells_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "flow.json"
    path.write_text("{")
    with pytest.raises(RecordingError, match=r"flow\.json: not JSON"):
        take(path, "chrome-recorder")
    with pytest.raises(InvalidRequest, match="'crome' is no format") as no:
        take(path, "crome")
    assert "chrome-recorder" in no.value.hint


def test_a_recording_of_ours_is_said_to_be_one(tmp_path: Path) -> None:
    flow = tmp_path / "flow.json"
    flow.write_text(json.dumps(every_step()))
    folder = write_taken(tmp_path, "ours", take(flow))
    pack(folder, tmp_path / "packed.zip")
    for path in (folder, tmp_path / "packed.zip"):
        with pytest.raises(RecordingError, match=r"is a recording of agentserve already"):
            take(path)


def test_a_history_as_large_as_its_importer_takes_is_known(tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    state = {"url": "http://a.test/", "html": "x" * (17 * 1024 * 1024)}
    item = {"model_output": {"action": [{"go_back": {}}]}, "result": [{}], "state": state}
    path.write_text(json.dumps({"history": [item]}))
    assert take(path).format == "browser-use"


@pytest.mark.parametrize("known", FORMATS, ids=lambda one: one.name)
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path, known: ImportFormat) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(RecordingError, match=r"pipe"):
        take(pipe, known.name)


@pytest.mark.parametrize(
    ("format_name", "text"),
    [
        ("agentnet", '{"task_id": "a", "steps": [%s{}]}'),
        ("browser-use", '{"history": [%s{}]}'),
        ("chrome-recorder", '{"title": "a", "steps": [%s{}]}'),
        ("playwright-codegen", '{"browserName": "a", "x": [%s{}]}\n'),
    ],
)
def test_json_that_would_fill_the_memory_is_not_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_name: str, text: str
) -> None:
    monkeypatch.setattr(sources, "from_json", lambda *_, **__: pytest.fail("it is parsed"))
    path = tmp_path / "wide"
    path.write_text(text % ("[]," * 1_000_000))
    with pytest.raises(RecordingError, match=r"wide.*: too many values in it"):
        take(path, format_name)


def test_what_is_not_there_and_what_is_no_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="cannot be read"):
        take(tmp_path / "nowhere")
    with pytest.raises(RecordingError, match="neither a file nor a folder"):
        take(Path("/dev/null"))
    with pytest.raises(RecordingError, match="cannot be read"):
        take(Path("a\0b"))
