"""``agentserve replay``: what it refuses, what it accepts, and what it tells by its exit code."""

from __future__ import annotations

import asyncio
import importlib
import json
import re
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import Result
from typer.main import get_command
from typer.testing import CliRunner

from agentserve.bench.settings import setting_of
from agentserve.cli import app
from agentserve.cli.replay_engine import _screens, replay_engines
from agentserve.core.actions import Click
from agentserve.core.errors import InvalidRequest, NoWorker, RecordingError
from agentserve.replay import Replayed, read_recording
from agentserve.replay.bundle.packing import pack
from agentserve.replay.compare.difference import Difference
from agentserve.replay.modes.reporting import report_of
from agentserve.replay.results import Side, StepReport

BUNDLED = Path(__file__).parents[2] / "scenarios/miniwob/recordings"
DIFFERENT = 3
OUTCOME = Difference(comparer="outcome", field="outcome.success")
NETWORK = Difference(comparer="network", field="network.body")
ACTION = Difference(comparer="action", field="action.point")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A recording of three steps and a closing one."""
    return Path(shutil.copytree(BUNDLED / "enter-text-0", tmp_path / "gui/own"))


def replay(*arguments: Any) -> Result:
    return CliRunner().invoke(app, ["replay", *map(str, arguments)])


def found(
    monkeypatch: pytest.MonkeyPatch, by_step: dict[int, Difference], *whole: Difference
) -> None:
    """Every replay finds this from now on."""

    async def replayed(paths: Any, asked: Any, done: Any) -> None:
        for one in paths:
            recording = read_recording(one.path)
            steps = []
            for step in recording.steps:
                differences = [by_step[step.index]] if step.index in by_step else []
                now = Side(action=Click(x=step.index, y=9))
                steps.append(
                    StepReport(
                        index=step.index, recorded=Side(), replayed=now, same=not differences,
                        differences=differences,
                    )
                )  # fmt: skip
            done(Replayed(report_of(recording, "browser", steps, differences=whole), recording))

    monkeypatch.setattr("agentserve.cli.replay._replay_all", replayed)


def unwrapped(text: str) -> str:
    return " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize(
    ("by_step", "whole", "steps"),
    [
        ({}, (OUTCOME,), ()),
        ({1: NETWORK}, (), ()),
        ({2: ACTION}, (), ("--step", 0)),
    ],
    ids=["an outcome", "the network", "another step"],
)
def test_what_was_not_accepted_still_differs(
    own: Path, monkeypatch: pytest.MonkeyPatch, by_step: dict, whole: tuple, steps: tuple
) -> None:
    found(monkeypatch, by_step, *whole)
    result = replay(own, "--update", *steps)
    assert result.exit_code == DIFFERENT, result.output
    assert "accepted from" not in result.output and "expect.json" not in result.output
    assert not (own / "expect.json").exists(), "nothing was accepted"


def test_of_several_differences_those_that_are_left_are_told(
    own: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found(monkeypatch, {0: ACTION, 2: ACTION}, OUTCOME)
    junit = tmp_path / "results.xml"
    result = replay(own, "--update", "--step", 2, "--junit", junit)
    assert result.exit_code == DIFFERENT
    assert "✗ step 0" in result.stdout and "✓ step 2" in result.stdout
    assert "note: accepted from now on: 1 action" in result.stdout
    assert "1 of 4 steps differ: 1 action, 1 outcome" in junit.read_text()
    (step,) = json.loads((own / "expect.json").read_text())["steps"]
    assert step["index"] == 2


def test_what_was_accepted_is_the_same_and_not_offered_again(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found(monkeypatch, {0: ACTION, 2: ACTION})
    before = replay(own)
    assert before.exit_code == DIFFERENT and "with --update" in before.stdout
    result = replay(own, "--update")
    assert result.exit_code == 0, result.output
    assert "accepted: " in result.stderr and "✗" not in result.stdout
    assert "with --update" not in result.stdout


def test_what_cannot_be_written_beside_one_keeps_no_other_from_being_accepted(
    own: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pack(own, own.parent / "archive.zip")
    found(monkeypatch, {0: ACTION})
    result = replay(own.parent, "--update")
    assert result.exit_code == 1
    assert "archive.zip is a zip file" in unwrapped(result.stdout)
    assert (own / "expect.json").exists()


def test_a_step_that_a_recording_has_not_is_refused_before_anything_is_done(own: Path) -> None:
    result = replay(own, BUNDLED / "click-button-1", "--mode", "browser", "--update", "--step", 2)
    assert isinstance(result.exception, InvalidRequest)
    assert "--step 2: click-button-1 has no such step" in result.exception.message
    assert not (own / "expect.json").exists()


def test_a_bad_recording_is_an_error_beside_the_good_ones(own: Path, tmp_path: Path) -> None:
    """One cannot be read, one has a damaged picture: the third is replayed all the same."""
    for name in ("unread", "damaged"):
        shutil.copytree(own, own.parent / name)
    (own.parent / "unread/meta.json").write_text("{}")
    next((own.parent / "damaged/screenshots").glob("*.png")).write_bytes(b"no picture")
    junit, page = tmp_path / "results.xml", tmp_path / "page.html"
    result = replay(own.parent, "--mode", "browser", "--junit", junit, "--html", page)
    assert result.exit_code == 1, result.output
    assert "unread: meta.json: " in result.stdout
    cases = {case.get("name"): case for case in ElementTree.parse(junit).iter("testcase")}
    assert set(cases) == {"own", "unread", "damaged"}
    assert [name for name, case in cases.items() if case.find("error") is None] == ["own"]
    assert "no picture" not in page.read_text() and '"own"' in page.read_text()


def test_what_was_found_before_the_end_is_written(
    own: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def replayed(paths: Any, asked: Any, done: Any) -> None:
        recording = read_recording(own)
        done(Replayed(report_of(recording, "model", []), recording))
        raise NoWorker("no worker is left")

    monkeypatch.setattr("agentserve.cli.replay._replay_all", replayed)
    result = replay(own, "--junit", tmp_path / "results.xml")
    assert isinstance(result.exception, NoWorker)
    assert (tmp_path / "results.xml").exists() and "own" in result.stdout


def test_without_a_router_it_says_that_there_is_local() -> None:
    result = replay(BUNDLED / "click-button-1", "--router", "http://127.0.0.1:1")
    assert result.exit_code == 1
    assert "`agentserve run` and `replay` start their own with --local" in unwrapped(result.stdout)


def test_ctrl_c_shows_what_was_found_and_accepts_nothing(
    own: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found(monkeypatch, {0: ACTION})
    replay_all = importlib.import_module("agentserve.cli.replay")._replay_all

    async def interrupted(paths: Any, asked: Any, done: Any) -> None:
        await replay_all(paths[:1], asked, done)
        raise KeyboardInterrupt

    monkeypatch.setattr("agentserve.cli.replay._replay_all", interrupted)
    junit = tmp_path / "results.xml"
    shutil.copytree(own, own.parent / "second")
    result = replay(own.parent, "--update", "--junit", junit)
    assert result.exit_code == 130
    assert "stopped after 1 of 2 recordings; nothing is accepted" in result.stderr
    assert "✗ step 0" in result.stdout and junit.exists()
    assert not (own / "expect.json").exists()


def test_what_cannot_be_written_is_shown_all_the_same(
    own: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found(monkeypatch, {0: ACTION})

    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("agentserve.replay.junit.write_whole", full)
    result = replay(own, "--junit", tmp_path / "results.xml", "--html", tmp_path / "page.html")
    assert isinstance(result.exception, RecordingError)
    assert "No space left" in result.exception.message
    assert "✗ step 0" in result.stdout and "side by side" not in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--mode", "engine", "--update"], "--update does nothing in the mode engine"),
        (["--mode", "model", "--network", "recorded"], "--network does nothing in the mode model"),
        (["--mode", "model", "--skip-unsupported"], "--skip-unsupported does nothing"),
        (["--mode", "model", "--headed"], "--headed does nothing"),
        (["--headed"], "--headed does nothing in the mode model"),
        (["--mode", "model", "--secret", "X"], "--secret does nothing"),
        (["--mode", "browser", "--local"], "--local does nothing"),
        (["--mode", "browser", "--setting", "off"], "--setting does nothing"),
        (["--mode", "browser", "--on-miss", "live"], "--on-miss is of answers from the recording"),
        (["--also"], "--also is of --update"),
        (["--step", "1"], "--step says what --update accepts"),
        (["--html", "nowhere/page.html"], "--html: there is no folder"),
        (["--junit", "nowhere/results.xml"], "--junit: there is no folder"),
        (["--html", str(BUNDLED)], "is a folder"),
        (["--junit", str(BUNDLED)], "is a folder"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_option_that_cannot_be_followed_is_refused(arguments: list[str], words: str) -> None:
    result = replay(BUNDLED / "enter-text-0", *arguments)
    assert isinstance(result.exception, InvalidRequest), result.output
    assert words in result.exception.message


def test_a_setting_is_one_that_is_there() -> None:
    """It is said before a worker is looked for, and no other one is used in its place."""
    recording = read_recording(BUNDLED / "enter-text-0")
    for text in ("divprune:0.5", "flat:0.5,tome:0.5", "after:vtw:0.5", "flat:half", "flat:1.5", ""):
        with pytest.raises(InvalidRequest):
            asyncio.run(replay_engines([], None, None, text, [].append))
    for text in ("uniform:0.50", "uniform:.5", "uniform"):
        setting = setting_of(text)
        screens = _screens(recording, setting)
        assert screens is not None and screens.pruning is not None
        assert (screens.pruning.method, screens.pruning.ratio) == ("uniform", 0.5)
        assert setting.name == "uniform:0.5"
    kept = _screens(recording, setting_of("after:attention:0.25"))
    assert kept is not None and kept.eviction is not None and kept.eviction.keep == 0.75
    off = _screens(recording, setting_of("off"))
    assert off is not None and off.pruning is None and off.eviction is None


def test_the_help_s_examples_of_a_setting_are_settings() -> None:
    (option,) = [one for one in get_command(app).commands["replay"].params if one.name == "setting"]
    examples = re.findall(r"[a-z_:]+:0\.\d+", option.help)
    assert len(examples) == 2
    for example in examples:
        assert setting_of(example).name == example


def test_a_pattern_that_is_none_is_an_error_of_its_recording_alone(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a step's rules as well; it ended the whole command when a text was compared."""
    monkeypatch.setattr("agentserve.cli.router_or_local.local_stack", None)
    rule = {"actions": {"texts": {"mode": "regex", "pattern": "("}}}
    (own / "expect.json").write_text(json.dumps({"steps": [{"index": 1} | rule]}))
    shutil.copytree(own, own.parent / "other")
    result = replay(own.parent, "--mode", "model", "--local")
    assert result.exit_code == 1, result.output
    assert unwrapped(result.stdout).count("'(' is no pattern that RE2 takes") == 2
