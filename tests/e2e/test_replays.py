"""Recordings as regression tests, through real SGLang: the ones that come along, and faults that
are found and named by the right comparer."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx
import pytest
import torch
from e2e.helpers import command
from safetensors.torch import load_file, save_file

from agentserve.browser.launch import launch_browser
from agentserve.cli.stack import Stack, StackOptions, local_stack
from agentserve.client import RouterClient
from agentserve.nano.store import WEIGHTS
from agentserve.replay import ReplayReport, read_recording, replay_model

RECORDINGS = Path(__file__).parents[2] / "scenarios/miniwob/recordings"
PROGRAMS = Path(__file__).parents[2] / "programs"
MOSAIC = RECORDINGS / "login-user-1"


async def test_the_bundled_recordings_replay_the_same(stack: Stack, tmp_path: Path) -> None:
    """Ten tasks and more, each in a session of its own: JUnit and a page that people look at."""
    page, junit = tmp_path / "replays.html", tmp_path / "replays.xml"
    code, stdout, stderr = await command(
        stack, "replay", str(RECORDINGS), "--html", str(page), "--junit", str(junit), "--json"
    )
    assert code == 0, stdout + stderr
    reports = [ReplayReport.model_validate(report) for report in json.loads(stdout)]
    names = sorted(path.name for path in RECORDINGS.iterdir())
    assert sorted(report.name for report in reports) == names
    assert len(names) >= 10
    assert all(report.same and report.mode == "model" for report in reports)
    suite = ElementTree.parse(junit).getroot().find("testsuite")
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == (
        str(len(names)),
        "0",
        "0",
    )
    await _looked_at(page, len(names))


async def _looked_at(path: Path, recordings: int) -> None:
    """As people do: searched, filtered, the slider dragged."""
    async with launch_browser() as browser:
        page = await browser.new_page(viewport={"width": 1400, "height": 1100})
        problems: list[str] = []
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        await page.goto(path.as_uri())
        assert await page.inner_text("#shown") == f"{recordings} of {recordings} shown"
        await page.fill("#search", "login")
        assert await page.inner_text("#shown") == f"2 of {recordings} shown"
        await page.press("#search", "Enter")
        await page.select_option("#kind", "different")
        assert await page.is_visible("#none")
        slider = page.locator("#slider")
        await slider.scroll_into_view_if_needed()
        box = await slider.bounding_box()
        middle = box["y"] + box["height"] / 2
        await page.mouse.move(box["x"] + box["width"] / 2, middle)
        await page.mouse.down()
        await page.mouse.move(box["x"] + box["width"] * 0.9, middle, steps=4)
        await page.mouse.up()
        assert 80 < float(await slider.input_value()) < 100
        assert problems == []


async def test_a_raised_pruning_ratio_is_named(router: RouterClient, tmp_path: Path) -> None:
    """By the counts of tokens: whatever the model answers."""
    report = await replay_model(router, _changed(tmp_path, _with_pruning))
    fields = {d.field for step in report.steps for d in step.differences}
    assert "usage.sent_tokens" in fields or "usage.pruned_tokens" in fields, fields
    assert {d.comparer for step in report.steps for d in step.differences} <= {"usage", "action"}
    assert not report.same


async def test_a_cache_that_is_flushed_under_a_session_is_named(
    stack: Stack, router: RouterClient
) -> None:
    """By the prefix: the prompts still extend each other, and nothing of them is found."""

    def flush(_: Any) -> None:
        for worker in stack.workers:
            httpx.post(f"{worker}/flush_cache", params={"timeout": 30}).raise_for_status()

    clean = await replay_model(router, read_recording(MOSAIC))
    assert clean.same, clean.model_dump_json()
    report = await replay_model(router, read_recording(MOSAIC), on_step=flush)
    found = [{d.comparer for d in step.differences} for step in report.steps]
    assert found[0] == set()
    assert all("prefix" in comparers for comparers in found[1:])


async def test_an_agent_does_a_recorded_task_anew(stack: Stack) -> None:
    code, stdout, stderr = await command(
        stack, "replay", str(RECORDINGS / "enter-text-0"), "--mode", "full", "--json"
    )
    assert code == 0, stdout + stderr
    (report,) = json.loads(stdout)
    assert report["same"] and report["totals"]["replayed_steps"] == 3


async def test_a_worker_answers_the_same_prompts_the_same(stack: Stack) -> None:
    """Mode engine: on two workers token for token; under another setting what it prunes shows."""
    one, two = stack.workers
    arguments = ("replay", str(MOSAIC), "--mode", "engine", "--worker", one, "--json")
    code, stdout, stderr = await command(stack, *arguments, "--against", two)
    (report,) = json.loads(stdout)
    assert code == 0, stdout + stderr
    assert report["totals"]["same"] == 5
    compared = report["settings"]
    assert int(compared["log-probabilities"]) == int(compared["tokens"]) > 20
    assert any(note.startswith("times of the second side") for note in report["notes"])


def _changed(folder: Path, change: Callable[[dict[str, Any]], None]) -> Any:
    """A copy of a recording of which the session's settings were changed."""
    shutil.copytree(MOSAIC, folder / "changed")
    path = folder / "changed/meta.json"
    meta = json.loads(path.read_text())
    change(meta["session"])
    path.write_text(json.dumps(meta))
    return read_recording(folder / "changed")


def _with_pruning(session: dict[str, Any]) -> None:
    session["pruning"] = {"method": "uniform", "ratio": 0.5}


@pytest.mark.soak
@pytest.mark.timeout(1200)
async def test_another_model_is_named_by_what_it_decides(tmp_path: Path) -> None:
    """The same architecture with other weights, served by a worker of its own."""
    folder = tmp_path / "other"
    shutil.copytree(WEIGHTS, folder)
    weights = load_file(folder / "model.safetensors")
    random = torch.Generator().manual_seed(1)
    for name, weight in weights.items():
        noise = torch.randn(weight.shape, generator=random) * weight.float().std().nan_to_num()
        weights[name] = (weight.float() + noise).to(weight.dtype)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    options = StackOptions(workers=1, model=str(folder), programs=(PROGRAMS,), device="cpu")
    async with local_stack(options, print) as stack, RouterClient(stack.router) as client:
        report = await replay_model(client, read_recording(MOSAIC))
    print(report.model_dump_json())
    assert {d.comparer for step in report.steps for d in step.differences} == {"action"}
    assert report.totals.different == 5
