"""``agentserve recording``, and what ``run`` and ``demo`` keep out of recordings."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from replay.bundle.corpus_contents import with_file
from replay.replay_builders import DONE, make_steps, record
from typer.testing import CliRunner

from agentserve.cli import app
from agentserve.cli.redaction import parse_mask, redacted
from agentserve.core.actions.recorded import Unsupported
from agentserve.core.elements import ElementTarget, PageBox
from agentserve.core.errors import InvalidRequest, RecordingError
from agentserve.replay import RecordingWriter, StepLine, read_recording
from agentserve.replay.bundle.format import EndLine, Imported


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    return (await record(tmp_path, make_steps(2), end=DONE, id="clean")).folder


def command(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["recording", *map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.output


def test_verify_says_what_is_wrong_of_each(folder: Path, tmp_path: Path):
    assert "ok" in command("verify", folder)
    command("pack", folder)
    (folder / "notes.md").write_text("mine")
    with_file("screenshots/" + "0" * 64 + ".png", b"x")(folder)
    assert "no step names it" in command("verify", folder)
    next((folder / "screenshots").glob("[1-9a-f]*")).unlink()
    told = " ".join(command("verify", folder.with_suffix(".zip"), folder, code=1).split())
    assert "clean.zip" in told and "damaged" in told
    assert ".png is missing" in told and "notes.md: no entry of a recording" in told
    assert "take the recording again" in told

    found = json.loads(command("verify", folder, tmp_path / "none", "--json", code=1))
    assert set(found) == {str(folder), str(tmp_path / "none")}
    assert {f["severity"] for f in found[str(folder)]} == {"error", "warning"}
    (none,) = found[str(tmp_path / "none")]
    assert none["message"] == "none: there is no such folder or file"


def test_verify_checks_every_recording_that_a_folder_holds(folder: Path, tmp_path: Path):
    root = tmp_path / "gui"
    for name in ("deep/er/first", "second", "third"):
        shutil.copytree(folder, root / name)
    assert "✓ 3 of 3 recordings ok" in command("verify", root)
    (root / "second/notes.md").write_text("mine")
    (root / "third/steps.jsonl").unlink()
    told = command("verify", root, root / "second", code=1)
    assert told.count("✓ ok") == 2 and told.count("✗ damaged") == 1
    assert "third: steps.jsonl is missing" in told and "first" in told
    assert "✗ 2 of 3 recordings ok (1 with warnings), 1 damaged" in told
    found = json.loads(command("verify", root, "--json", code=1))
    assert {path: len(findings) for path, findings in found.items()} == {
        str(root / "deep/er/first"): 0, str(root / "second"): 1, str(root / "third"): 1,
    }  # fmt: skip
    (tmp_path / "empty").mkdir()
    told = command("verify", tmp_path / "empty", code=1)
    assert "empty is no recording: there is no meta.json in it" in told
    assert "recordings ok" not in told, "one needs no counts"


@pytest.mark.parametrize("name", ["show", "pack"])
def test_of_a_folder_that_holds_recordings_one_is_to_be_named(
    folder: Path, tmp_path: Path, name: str
):
    root = tmp_path / "gui"
    shutil.copytree(folder, root / "form/first")
    with pytest.raises(RecordingError, match="gui is no recording") as no:
        command(name, root)
    assert no.value.hint == f"it holds some: name one of them, as {root / 'form/first'}"
    (tmp_path / "empty").mkdir()
    with pytest.raises(RecordingError, match="empty is no recording") as no:
        command(name, tmp_path / "empty")
    assert "a recording is a folder with a meta.json" in no.value.hint


def test_names_from_a_recording_steer_no_terminal(folder: Path):
    (folder / "a\x1b[2Jb").write_text("x")
    (folder / "[red]c").write_text("x")
    for told in (command("verify", folder), command("pack", folder)):
        assert "\x1b[2J" not in told
        assert "[red]c" in told


def test_show_tells_what_is_in_it(folder: Path, tmp_path: Path):
    told = command("show", folder)
    for words in ("clean", "program navigator", "“Ok”", "160x210 CSS px, scale 1.4", "2 steps"):
        assert words in told
    assert "click 40 60" in told and "click 41 60" in told and "done, success" in told
    values = json.loads(command("show", folder, "--json"))
    assert [step["action"] for step in values["steps"]] == ["click 40 60", "click 41 60"]
    assert values["meta"]["id"] == "clean" and values["end"]["success"] is True


def test_show_tells_what_an_import_lost(folder: Path, tmp_path: Path):
    meta = read_recording(folder).meta.model_copy(
        update={
            "id": "taken",
            "source": "import",
            "session": None,
            "space": None,
            "imported": Imported(format="chrome-recorder", version="9", lost=["a \x1b[31mpopup"]),
        }
    )
    writer = RecordingWriter(tmp_path, meta)
    target = ElementTarget(text="Save")
    writer.append(
        StepLine(index=0, url="", performed=Unsupported(what="custom step"), target=target)
    )
    writer.append(EndLine(end="closed", turns=1))
    told = command("show", writer.folder)
    assert "import of chrome-recorder 9" in told
    assert 'unsupported "custom step"' in told and "Save" in told
    assert "lost at import: a ·[31mpopup" in told


def test_pack_and_unpack_choose_a_name_beside_it(folder: Path, tmp_path: Path):
    assert command("pack", folder).strip() == str(tmp_path / "clean.zip")
    with pytest.raises(RecordingError, match="clean is there already"):
        command("unpack", tmp_path / "clean.zip")
    command("unpack", tmp_path / "clean.zip", tmp_path / "again")
    assert read_recording(tmp_path / "again").steps == read_recording(folder).steps
    (tmp_path / "clean.zip").rename(tmp_path / "noend")
    command("unpack", tmp_path / "noend")
    assert (tmp_path / "noend.recording" / "meta.json").is_file()


def test_pack_and_unpack_say_what_to_do_instead(folder: Path, tmp_path: Path):
    command("pack", folder)
    archive = tmp_path / "clean.zip"
    for arguments, words, hint in (
        (("pack", folder), "clean.zip is there already", "as the second argument, or remove it"),
        (("pack", archive), "clean.zip is a file", "recording unpack makes a folder"),
        (("unpack", archive), "clean is there already", "as the second argument, or remove it"),
        (("unpack", folder, tmp_path / "new"), "clean is a folder", "recording show"),
        (("pack", folder, archive / "x.zip"), "Not a directory", "name another place"),
        (("pack", folder, tmp_path / "a/x.zip"), "No such file", "make the folder"),
    ):
        with pytest.raises(RecordingError) as no:
            command(*arguments)
        assert words in no.value.message and hint in no.value.hint, arguments
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clean", "clean.zip"]


def test_what_may_not_be_written_is_told(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refused(*arguments: object, **more: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("agentserve.replay.bundle.packing.zipfile.ZipFile", refused)
    with pytest.raises(RecordingError, match="Permission denied") as no:
        command("pack", folder)
    assert no.value.hint == f"name a place that you may write to: {tmp_path} is none"


def test_schemas_are_printed_or_written(tmp_path: Path):
    printed = json.loads(command("schema"))
    assert {"meta.json", "steps.jsonl"} <= set(printed)
    command("schema", "--out", tmp_path / "schemas")
    written = {p.name: json.loads(p.read_text()) for p in (tmp_path / "schemas").iterdir()}
    assert written["meta.schema.json"] == printed["meta.json"]
    assert written["steps.schema.json"] == printed["steps.jsonl"]
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / ("x" * 300)):
        with pytest.raises(RecordingError, match="cannot write") as no:
            command("schema", "--out", out)
        assert "--out is a folder" in no.value.hint
    assert (tmp_path / "file").read_text() == "mine"


def test_a_mask_is_read():
    assert parse_mask("10,20.5,300,40") == PageBox(x=10, y=20.5, width=300, height=40)
    for text in ("", "1,2,3", "1,2,3,4,5", "1,2,3,x", "1,2,-3,4", "nan,1,2,3", "inf,1,2,3"):
        with pytest.raises(InvalidRequest, match="X,Y,WIDTH,HEIGHT"):
            parse_mask(text)


def test_a_secret_is_an_environment_variable(monkeypatch):
    monkeypatch.setenv("PASSWORD", "hunter2!")
    monkeypatch.setenv("TINY", "ab")
    monkeypatch.delenv("NOTHING", raising=False)
    assert redacted(["1,2,3,4"], ["PASSWORD"]).secrets == {"PASSWORD": "hunter2!"}
    assert redacted(None, None).masks == ()
    with pytest.raises(InvalidRequest, match="no such environment variable"):
        redacted(None, ["NOTHING"])
    with pytest.raises(InvalidRequest, match="TINY has 2 characters"):
        redacted(None, ["TINY"])
