"""The command line without a router: what it refuses, in which words, with which exit code."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentserve.cli.console import err
from agentserve.cli.demo import DemoOptions, _tell
from agentserve.cli.demo_view import DemoView
from agentserve.cli.redaction import redacted
from agentserve.cli.run import _achieved, parse_size
from agentserve.cli.stack import check_free
from agentserve.core.errors import InvalidRequest
from agentserve.core.runs import RunSummary
from agentserve.core.screens import Size
from agentserve.core.sessions import ScreenPolicy

USAGE, ERROR = 2, 1


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agentserve.cli", *arguments],
        cwd=cwd,
        env=os.environ | {"AGENTSERVE_ROUTER": "http://127.0.0.1:1"},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize(
    ("changed", "command"),
    [
        ({}, "replay 'my runs' --local"),
        ({"keep_alive": True}, "replay 'my runs'"),
        ({"router": "http://a:1"}, "replay 'my runs' --router http://a:1"),
        ({"model": "other"}, "replay 'my runs' --mode browser"),
    ],
)
def test_the_demo_ends_with_how_its_recordings_are_replayed(
    capsys: pytest.CaptureFixture[str], changed: dict[str, Any], command: str
) -> None:
    options = DemoOptions(
        tasks=(), workers=1, model="nano", device=None, router=None, max_turns=1,
        recordings=Path("my runs"), keep_alive=False, as_json=False, screens=ScreenPolicy(),
        redacted=redacted(None, None),
    )  # fmt: skip
    _tell(replace(options, **changed), DemoView(err, []), Path("page.html"), 1, 2)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("next: ") and last.endswith(f" {command}")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["rum"], USAGE, "rum"),
        (["serve"], USAGE, "--worker"),
        (["run", "--max-turns", "0", "--scenario", "miniwob/click-test"], USAGE, "equal to 1"),
        (["run"], ERROR, "--scenario, or both --url and --task"),
        (["run", "--scenario", "miniwob/click-tset"], ERROR, "click-test"),
        (["run", "--scenario", "admin/sign-in", "--task", "hi"], ERROR, "do not go with"),
        (["run", "--url", "http://x", "--task", "x", "--viewport", "9x"], ERROR, "WIDTHxHEIGHT"),
        (["run", "--program", "nope.py", "--scenario", "admin/sign-in"], ERROR, "navigator"),
        (["run", "--scenario", "admin/sign-in"], ERROR, "agentserve demo --keep-alive"),
        (["serve", "--worker", "127.0.0.1:1"], ERROR, "http://HOST:PORT"),
        (["serve", "--worker", "http://127.0.0.1:1", "--programs", "/nope"], ERROR, "/nope"),
        (["serve", "--worker", "http://127.0.0.1:1", "--log-format", "xml"], ERROR, "json"),
        (["serve", "--worker", "http://127.0.0.1:1", "--log-level", "all"], ERROR, "warning"),
        (["serve", "--worker", "http://127.0.0.1:1", "--shared-port", "8300"], ERROR, "--store"),
        (["demo", "--keep-alive", "--router", "http://127.0.0.1:1"], ERROR, "--keep-alive"),
        (["cost", "./nope"], ERROR, "config.json"),
        (["cost", "--settings", "fastvee"], ERROR, "fastvee"),
        (["bench", "probes", "--smg", "./nope"], ERROR, "pip install smg=="),
        (["bench", "router", "--out", "./nope/figures.json"], ERROR, "no folder nope"),
        (["worker", "--model", "./nope", "--device", "cpu"], ERROR, "./nope"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_a_mistake_is_told_in_a_line(
    tmp_path: Path, arguments: list[str], code: int, words: str
) -> None:
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert words in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == [], "a refused command leaves nothing"


def test_what_is_no_recording_is_told_by_name(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    done = run("replay", str(tmp_path))
    assert done.returncode == ERROR
    assert "is no recording and holds none" in done.stderr
    (tmp_path / "one/meta.json").write_text("{}")
    done = run("replay", str(tmp_path))
    assert done.returncode == ERROR
    assert "one: meta.json: " in done.stdout
    assert "does not exist" in run("replay", str(tmp_path / "two")).stderr


def test_scenarios_are_listed() -> None:
    names = json.loads(run("scenarios", "--json").stdout)
    assert {"miniwob/click-test", "admin/sign-in"} <= set(names)
    assert "admin/sign-in" in run("scenarios").stdout


def test_costs_are_foretold_without_a_worker() -> None:
    rows = json.loads(run("cost", "--settings", "fastv", "--ratios", "0.5", "--json").stdout)
    by_name = {row["name"]: row for row in rows}
    assert list(by_name)[:2] == ["off", "fastv:0.5"]
    assert by_name["fastv:0.5"]["visual_kept"] == by_name["off"]["visual_kept"] / 2 == 480
    assert by_name["off"]["flops_ratio"] == 1 > by_name["fastv:0.5"]["flops_ratio"]
    assert "fastv:0.5" in run("cost", "--settings", "fastv", "--ratios", "0.5").stdout


def test_a_viewport_is_read() -> None:
    assert parse_size("1120x672") == Size(width=1120, height=672)
    for text in ("0x10", "10x99999", "10", "axb"):
        with pytest.raises(InvalidRequest):
            parse_size(text)


def test_a_taken_port_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidRequest, match=str(port)):
            check_free(port)
    check_free(port)


@pytest.mark.parametrize(
    ("end", "success", "achieved"),
    [
        ("done", None, True),
        ("gave_up", None, False),
        ("max_turns", None, False),
        ("call_user", None, False),
        ("task_ended", True, True),
        ("task_ended", False, False),
        ("done", False, False),
    ],
)
def test_a_task_is_achieved_by_its_check_else_by_the_agents_word(end, success, achieved) -> None:
    assert _achieved(RunSummary(session_id="s_1", end=end, success=success)) is achieved
