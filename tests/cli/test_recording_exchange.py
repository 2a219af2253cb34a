"""``agentserve recording import`` and ``export``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from replay.flows import every_step
from typer.testing import CliRunner

from agentserve.cli import app
from agentserve.core.errors import InvalidRequest, RecordingError
from agentserve.replay import read_recording


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
    assert f"{root / 'my-flow'}: 23 steps of chrome, 0 with a screen" in shown
    assert "step 19: the custom step 'lighthouse' has no equal" in shown
    assert f"replay {root / 'my-flow'} --mode browser" in shown
    assert read_recording(root / "my-flow").meta.task == "Sign in"
    back = tmp_path / "back" / "flow.json"
    shown = run("export", root / "my-flow", "--format", "chrome", "--out", back)
    assert f"{back}: " in shown and "Import recording" in shown
    assert json.loads(back.read_bytes()) == every_step()


def test_both_print_json(tmp_path: Path, flow: Path) -> None:
    out = ("--out", tmp_path / "r", "--id", "a", "--task", "Do it", "--json")
    taken: dict[str, Any] = json.loads(run("import", flow, *out))
    assert (taken["recording"], taken["format"]) == (str(tmp_path / "r" / "a"), "chrome")
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
        run("export", root / "my-flow", "--format", "chrome", "--out", target)
    assert target.read_text() == "mine"


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
    assert "'crome' is no format" in done.stderr and "known: chrome, playwright" in done.stderr


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
