"""``agentserve recording import`` and ``export``."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from replay.flows import every_step
from typer.testing import CliRunner

from agentserve.cli import app
from agentserve.core.errors import InvalidRequest, RecordingError
from agentserve.replay import read_recording
from agentserve.replay.exporters.formats import FORMATS as EXPORTED
from agentserve.replay.importers.formats import FORMATS as IMPORTED


@pytest.fixture
def flow(tmp_path: Path) -> Path:
    path = tmp_path / "my flow.v2.json"
    path.write_text(json.dumps(every_step()))
    return path


def run(*arguments: object) -> str:
    """What a command prints; its error is raised."""
    result = CliRunner().invoke(app, ["recording", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_flow_goes_in_and_out_and_what_is_lost_is_told(tmp_path: Path, flow: Path) -> None:
    root = tmp_path / "recordings"
    shown = run("import", flow, "--out", root)
    assert f"{root / 'my-flow'}: 23 steps of chrome-recorder, 0 with a screen" in shown
    assert "step 19: the custom step 'lighthouse' has no equal" in shown
    assert f"replay {root / 'my-flow'} --mode browser" in shown
    assert read_recording(root / "my-flow").meta.task == "Sign in"
    back = tmp_path / "back" / "flow.json"
    shown = run("export", root / "my-flow", "--format", "chrome-recorder", "--out", back)
    assert f"{back}: " in shown and "Import recording" in shown
    assert json.loads(back.read_bytes()) == every_step()


def test_both_print_json(tmp_path: Path, flow: Path) -> None:
    out = ("--out", tmp_path / "r", "--id", "a", "--task", "Do it", "--json")
    taken: dict[str, Any] = json.loads(run("import", flow, *out))
    assert (taken["recording"], taken["format"]) == (str(tmp_path / "r" / "a"), "chrome-recorder")
    assert (taken["task"], taken["steps"]) == ("Do it", 23)
    assert "step 10: a 'touch' became the mouse" in taken["lost"]
    target = tmp_path / "here"
    target.mkdir()
    given = json.loads(
        run("export", tmp_path / "r" / "a", "--format", "playwright", "--out", target, "--json")
    )
    assert given["files"] == [str(target / "a.py")] and (target / "a.py").exists()
    assert any("lighthouse" in told for told in given["lost"])


def test_nothing_that_is_there_is_replaced(tmp_path: Path, flow: Path) -> None:
    root = tmp_path / "r"
    run("import", flow, "--out", root)
    with pytest.raises(InvalidRequest, match="there is a recording") as no:
        run("import", flow, "--out", root)
    assert "--id" in no.value.hint
    target = tmp_path / "kept"
    target.write_text("mine")
    with pytest.raises(InvalidRequest, match="is there already"):
        run("export", root / "my-flow", "--format", "chrome-recorder", "--out", target)
    assert target.read_text() == "mine"


def half(error: BaseException) -> Callable[[Path, bytes], int]:
    """A write that fails in the middle."""
    written = Path.write_bytes

    def write(path: Path, data: bytes) -> int:
        written(path, data[:10])
        raise error

    return write


def test_several_files_appear_as_a_new_folder_whole_or_not_at_all(
    tmp_path: Path, flow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, target = tmp_path / "r", tmp_path / "osworld"
    run("import", flow, "--out", root)
    export = ("export", root / "my-flow", "--format", "osworld", "--out")
    target.mkdir()
    (target / "mine.txt").write_text("mine")
    with pytest.raises(InvalidRequest, match="osworld is there already"):
        run(*export, target)
    assert [path.name for path in target.iterdir()] == ["mine.txt"]
    before = sorted(tmp_path.iterdir())
    # an interrupt ends the command with 130, of which `run` complains
    for error in (OSError(28, "No space left on device"), KeyboardInterrupt()):
        with monkeypatch.context() as patched, pytest.raises((RecordingError, AssertionError)):
            patched.setattr(Path, "write_bytes", half(error))
            run(*export, tmp_path / "new")
        assert sorted(tmp_path.iterdir()) == before
    (target / "mine.txt").unlink()
    run(*export, target)
    assert (target / "traj.jsonl").exists()


def test_one_file_is_written_whole_or_not_at_all(
    tmp_path: Path, flow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "r"
    run("import", flow, "--out", root)
    export = ("export", root / "my-flow", "--format", "playwright", "--out")
    before = sorted(tmp_path.iterdir())
    with monkeypatch.context() as patched, pytest.raises(RecordingError, match="No space left"):
        patched.setattr(Path, "write_bytes", half(OSError(28, "No space left on device")))
        run(*export, tmp_path / "a.py")
    with pytest.raises(RecordingError, match="cannot write .*too long"):
        run(*export, tmp_path / ("x" * 300))
    assert sorted(tmp_path.iterdir()) == before
    run(*export, tmp_path / "a.py")
    assert (tmp_path / "a.py").read_text().startswith('"""')


def test_an_out_that_is_too_long_a_name_is_told(tmp_path: Path, flow: Path) -> None:
    with pytest.raises(RecordingError, match="cannot write .*too long"):
        run("import", flow, "--out", tmp_path / ("x" * 300))


def test_a_format_has_one_name_in_both_directions() -> None:
    """What is exported for a tool is imported under the same word."""
    exported, imported = ({one.name for one in table} for table in (EXPORTED, IMPORTED))
    assert exported & imported == {"chrome-recorder", "osworld"}
    assert exported - imported == {"playwright"}  # a script, which nothing reads
    told = " ".join(run("export", "--help").split())
    assert all(name in told for name in exported)


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".", "x" * 65, "a\nb", "é"])
def test_an_id_is_no_path(tmp_path: Path, flow: Path, name: str) -> None:
    with pytest.raises(InvalidRequest, match="is no name of a recording"):
        run("import", flow, "--out", tmp_path / "r", "--id", name)
    assert not (tmp_path / "r").exists()


def test_what_is_refused_leaves_nothing(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps({"title": "t", "steps": []}))
    with pytest.raises(RecordingError, match="has no steps"):
        run("import", wrong, "--out", tmp_path / "r")
    wrong.write_text("[]")
    with pytest.raises(RecordingError, match="of no known format"):
        run("import", wrong, "--out", tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_an_error_is_a_line_and_a_hint_and_steers_no_terminal(tmp_path: Path) -> None:
    flow = tmp_path / "flow.json"
    steps = [{"type": "customStep", "name": "\x1b[2J[bold]", "parameters": {}}]
    flow.write_text(json.dumps({"title": "t", "steps": steps}))
    command = [sys.executable, "-m", "agentserve.cli", "recording"]
    done = subprocess.run(
        [*command, "import", flow, "--out", tmp_path / "r"], capture_output=True, text=True
    )
    assert done.returncode == 0 and "\x1b" not in done.stdout and "[bold]" in done.stdout
    folder = os.fspath(tmp_path / "r" / "flow")
    done = subprocess.run(
        [*command, "export", folder, "--format", "crome", "--out", "x"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert (
        "'crome' is no format" in done.stderr
        and "known: chrome-recorder, playwright" in done.stderr
    )


def test_an_import_keeps_out_what_it_is_told_to_and_warns_of_a_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [
        {"type": "setViewport", "width": 800, "height": 600, "deviceScaleFactor": 1,
         "isMobile": False, "hasTouch": False, "isLandscape": True},
        {"type": "navigate", "url": "http://127.0.0.1:8000/"},
        {"type": "change", "value": "hunter2!", "selectors": [["aria/Password"], ["#pw"]]},
        {"type": "change", "value": "x", "selectors": [["#password-hint"]]},
        {"type": "change", "value": "ada", "selectors": [["#user"]]},
    ]  # fmt: skip
    flow = tmp_path / "flow.json"
    flow.write_text(json.dumps({"title": "Sign in with hunter2!", "steps": steps}))
    root = tmp_path / "recordings"
    shown = run("import", flow, "--out", root, "--id", "clear")
    assert "steps 2, 3: what is typed into a password's field stands in" in shown
    assert "step 4: a text is typed, in clear; if one is a secret, remove" in shown
    assert shown.count("again with --secret NAME, the environment variable") == 2

    monkeypatch.setenv("PASSWORD", "hunter2!")
    options = ("--out", root, "--id", "hidden", "--secret", "PASSWORD", "--mask", "1,2,3,4")
    told = json.loads(run("import", flow, *options, "--json"))
    assert [warning.partition(":")[0] for warning in told["warnings"]] == ["step 3", "step 4"]
    assert (told["passwords"], told["typed"]) == ([3], [4])
    assert told["next"].endswith("hidden --mode browser --secret PASSWORD")
    assert told["task"] == "Sign in with {{secret:PASSWORD}}"
    meta = read_recording(root / "hidden").meta
    assert meta.secrets == ["PASSWORD"] and len(meta.masks) == 1
    files = [path for path in (root / "hidden").rglob("*") if path.is_file()]
    assert files and not [path for path in files if b"hunter2" in path.read_bytes()]


def flow_of(path: Path, *steps: dict[str, Any]) -> Path:
    first = {"type": "navigate", "url": "http://127.0.0.1:8000/"}
    path.write_text(json.dumps({"title": "t", "steps": [first, *steps]}))
    return path


def change(value: str) -> dict[str, Any]:
    return {"type": "change", "value": value, "selectors": [["#a"]]}


def test_only_what_is_typed_in_clear_is_told_and_in_a_line(tmp_path: Path) -> None:
    root = tmp_path / "r"
    quiet = flow_of(tmp_path / "quiet.json", change("true"), change(""), change("{{secret:A}}"))
    told = json.loads(run("import", quiet, "--out", root, "--json"))
    assert (told["typed"], told["passwords"]) == ([], [])
    many = flow_of(tmp_path / "many.json", *[change("word")] * 30)
    shown = run("import", many, "--out", root).splitlines()
    (line,) = [line for line in shown if "a text is typed" in line]
    assert line.startswith("steps 1, 2, 3, ") and " 20 and 10 others: a text is typed" in line
    keys = [{"type": kind, "key": key} for key in "dDeE" for kind in ("keyDown", "keyUp")]
    told = json.loads(
        run("import", flow_of(tmp_path / "keys.json", *keys), "--out", root, "--json")
    )
    assert len(told["warnings"]) == 1 and "typed in single keys" in told["warnings"][0]


def test_a_secret_that_cannot_be_hidden_is_refused_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIN", "dede")
    keys = [{"type": kind, "key": key} for key in "dede" for kind in ("keyDown", "keyUp")]
    source = flow_of(tmp_path / "keys.json", *keys)
    with pytest.raises(RecordingError, match="steps 1 to 4 type a secret in pieces"):
        run("import", source, "--out", tmp_path / "r", "--secret", "PIN")
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("before", range(240, 420, 7))
def test_a_secret_is_hidden_also_where_a_text_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    """What has no equal is quoted, and not whole."""
    monkeypatch.setenv("LONG", "hunter2!" * 20)
    action = {"input": {"text": "x" * before + "hunter2!" * 20}}
    item = {"model_output": {"action": [action]}, "result": [], "state": {}}
    source = tmp_path / "history.json"
    source.write_text(json.dumps({"history": [item]}))
    told = run("import", source, "--out", tmp_path / "r", "--secret", "LONG")
    files = [path.read_text() for path in (tmp_path / "r").rglob("*") if path.is_file()]
    assert not [text for text in (told, *files) if "hunter2!" in text]


def test_the_next_command_can_be_pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what a replay of it needs, in a folder of any name, and with no secret's value."""
    monkeypatch.setenv("KEY", "hunter2!")
    odd = {"type": "customStep", "name": "lighthouse", "parameters": {}}
    source = flow_of(tmp_path / "a.json", change("hunter2!"), change("{{secret:OTHER}}"), odd)
    root = tmp_path / "my $HOME; 'r"
    told = json.loads(run("import", source, "--out", root, "--secret", "KEY", "--json"))
    words = shlex.split(told["next"])
    assert words[words.index("replay") :] == [
        "replay", str(root / "a"), "--mode", "browser", "--secret", "KEY", "--secret", "OTHER",
        "--skip-unsupported",
    ]  # fmt: skip
    assert "hunter2" not in told["next"]
    assert read_recording(root / "a").meta.secrets == ["OTHER", "KEY"]
    (asked,) = told["warnings"]
    assert asked == (
        "step 2: the source itself asks for the secret OTHER; a replay gives it to "
        "http://127.0.0.1:8000/: see whose page that is"
    )
    monkeypatch.chdir(tmp_path)
    dashed = json.loads(run("import", source, "--out", ".", "--id", "-x", "--json"))
    assert " replay ./-x --mode browser" in dashed["next"]
    source.write_text(json.dumps({"title": "t", "steps": [change("")]}))
    told = json.loads(run("import", source, "--out", root, "--id", "b", "--json"))
    assert told["next"].startswith('write the page\'s address as "url" in ')


def test_an_export_names_the_server_that_it_is_told(tmp_path: Path) -> None:
    root = tmp_path / "r"
    run("import", flow_of(tmp_path / "a.json", change("x")), "--out", root)
    meta = root / "a" / "meta.json"
    given = ("--format", "playwright", "--json", "--out")
    assert json.loads(run("export", root / "a", *given, tmp_path / "a.py"))["warnings"] == []
    scenario = {"scenario": {"name": "admin/sign-in", "seed": None}}
    meta.write_text(json.dumps(json.loads(meta.read_text()) | scenario))
    (told,) = json.loads(run("export", root / "a", *given, tmp_path / "b.py"))["warnings"]
    assert "http://127.0.0.1:8000" in told and "--base-url" in told
    assert told in run("export", root / "a", *given[:2], "--out", tmp_path / "c.py")
    run("export", root / "a", *given, tmp_path / "d.py", "--base-url", "http://b.test")
    assert "http://b.test/" in (tmp_path / "d.py").read_text()


def test_the_help_names_every_format() -> None:
    from agentserve.replay.importers.formats import FORMATS

    shown = " ".join(run("import", "--help").replace("│", " ").split())
    assert all(known.name in shown for known in FORMATS)


def test_a_task_that_is_too_long_is_refused(tmp_path: Path, flow: Path) -> None:
    with pytest.raises(InvalidRequest, match="--task has 8001 characters; 8000 is most"):
        run("import", flow, "--out", tmp_path / "r", "--task", "x" * 8001)
    assert not (tmp_path / "r").exists()


def test_a_folder_whose_name_no_disk_takes_is_said_in_words(tmp_path: Path, flow: Path) -> None:
    with pytest.raises(RecordingError, match="cannot write the recording"):
        run("import", flow, "--out", tmp_path / ("x" * 300))
