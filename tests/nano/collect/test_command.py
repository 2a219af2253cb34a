"""``agentserve nano collect`` as it is called."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
from e2e.helpers import AGENTSERVE
from typer.testing import CliRunner

from agentserve.cli import nano as cli
from agentserve.cli.nano_collect import _tell
from agentserve.nano.collect import read_shards
from agentserve.nano.collect.plan import Plan, Progress, Summary

COLLECT = (*AGENTSERVE, "nano", "collect")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """Plans that were to be carried out; nothing is."""
    plans: list[Plan] = []

    async def collect(plan: Plan, progress: Progress, summary: Summary) -> None:
        plans.append(plan)

    monkeypatch.setattr("agentserve.nano.collect.run.collect", collect)
    return plans


def call(*words: str) -> int:
    result = CliRunner().invoke(cli.app, ["collect", "--out", "x", "--screens", "5", *words])
    return result.exit_code


def test_options_become_a_plan(asked: list[Plan]) -> None:
    assert call("--tasks", "click-test, click-test,focus-text", "--seed", "2") == 0
    assert call("--mode", "solo", "--tasks", "login-user", "--pages", "4", "--augment", "0") == 0
    assert asked == [
        Plan(Path("x"), 5, ("click-test", "click-test", "focus-text"), seed=2),
        Plan(Path("x"), 5, ("login-user",), mode="solo", pages=4, augment=0),
    ]


def test_without_tasks_all_that_have_an_oracle_are_collected(asked: list[Plan]) -> None:
    from agentserve.nano.oracles import TASKS

    assert call() == 0
    assert asked[0].tasks == TASKS


@pytest.mark.parametrize("words", [("--mode", "gird"), ("--tasks", "no-such"), ("--augment", "2")])
def test_wrong_options_are_refused(asked: list[Plan], words: tuple[str, str]) -> None:
    assert call(*words) != 0
    assert asked == []


def test_the_counts_are_told_in_a_table_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    summary = Summary(seconds=2.0, shards=["grid-1-2.jsonl"])
    summary.add({"task": "click-test", "action": "click 2 2"})
    summary.unsolved["login-user"] = 3
    summary.failures["login-user"] = "reward -1"
    _tell(summary, as_json=False)
    table = capsys.readouterr().out
    assert "reward -1" in table
    assert "1 screens in 1 shards, 0.5/s" in table
    _tell(summary, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["per_second"] == 0.5
    assert told["by_task"] == {"click-test": 1}
    assert told["unsolved"] == {"login-user": 3}


def test_an_interrupted_collection_keeps_and_counts_its_screens(tmp_path: Path) -> None:
    """The real thing, in a process of its own."""
    process = subprocess.Popen(
        [*COLLECT, "--out", str(tmp_path), "--screens", "100000", "--pages", "1", "--json"]
        + ["--tasks", "click-test"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 120
        while not any(path.stat().st_size for path in tmp_path.glob(".grid-*.pack.part")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130, stderr
    told = json.loads(stdout)
    assert told["screens"] == len(list(read_shards(tmp_path))) > 0
    assert told["shards"] == [path.name for path in tmp_path.glob("*.jsonl")]
