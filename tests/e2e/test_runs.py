"""Whole runs from the command line: a real browser on real pages, recorded and replayed."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import psutil
from e2e.helpers import command, kill_worker, start

from agentserve.cli.stack import Stack
from agentserve.client import RouterClient
from agentserve.core.events import EventType
from agentserve.replay import read_recording


async def one_step(folder: Path) -> Path:
    """The only recording in ``folder``, as soon as it holds a whole step."""
    for _ in range(1200):
        lines = list(folder.glob("*/steps.jsonl"))
        if lines and b"\n" in lines[0].read_bytes():
            return lines[0].parent
        await asyncio.sleep(0.1)
    raise AssertionError("no step was recorded")


async def test_a_run_is_recorded_and_replays_the_same(stack: Stack, tmp_path: Path) -> None:
    code, stdout, stderr = await command(
        stack, "run", "--scenario", "miniwob/click-test", "--max-turns", "2", "--json",
        "--recordings", str(tmp_path),
    )  # fmt: skip
    result = json.loads(stdout)
    assert code in (0, 3), stderr
    assert result["turns"] >= 1
    assert result["end"] in ("max_turns", "task_ended", "done", "call_user")
    recording = read_recording(Path(result["recording"]))
    assert recording.complete
    assert len(recording.taken) == result["turns"]
    # what the last act has led to is there, unless the model had seen it before it said so
    acted = recording.taken[-1].performed
    last_seen = not acted or acted.kind in ("done", "call_user")
    assert len(recording.steps) - len(recording.taken) == (not last_seen)
    assert recording.meta.scenario.name == "miniwob/click-test"
    code, stdout, stderr = await command(stack, "replay", result["recording"], "--json")
    (report,) = json.loads(stdout)
    assert code == 0, stdout + stderr
    assert report["same"] is True
    assert report["totals"]["replayed_steps"] == result["turns"]


async def test_a_program_file_that_the_router_does_not_run_is_refused(
    stack: Stack, tmp_path: Path
) -> None:
    (tmp_path / "navigator.py").write_text("# not the registered one\n")
    arguments = ("--scenario", "miniwob/click-test", "--recordings", str(tmp_path / "recordings"))
    code, stdout, stderr = await command(
        stack, "run", "--program", str(tmp_path / "navigator.py"), *arguments
    )
    assert code == 1
    assert "unknown_program" in stderr
    assert "--local" in stderr
    code, _, stderr = await command(stack, "run", "--program", "nobody", *arguments)
    assert code == 1
    assert "navigator" in stderr
    assert not (tmp_path / "recordings").exists()


async def test_a_killed_run_leaves_a_recording_that_replays(stack: Stack, tmp_path: Path) -> None:
    process = await start(
        stack, "run", "--scenario", "miniwob/enter-text", "--recordings", str(tmp_path)
    )
    folder = await one_step(tmp_path)
    browser = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    await process.communicate()
    recording = read_recording(folder)
    assert not recording.complete
    assert len(recording.steps) >= 1
    code, stdout, stderr = await command(stack, "replay", str(folder), "--json")
    assert code == 0, stdout + stderr
    assert json.loads(stdout)[0]["complete"] is False
    _, alive = psutil.wait_procs(browser, timeout=20)
    assert alive == [], "the browser of a killed run must not live on"


async def test_an_interrupted_run_ends_its_recording_and_its_session(
    stack: Stack, router: RouterClient, tmp_path: Path
) -> None:
    process = await start(
        stack, "run", "--scenario", "miniwob/enter-text", "--recordings", str(tmp_path)
    )
    folder = await one_step(tmp_path)
    process.send_signal(signal.SIGINT)
    await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 130
    recording = read_recording(folder)
    assert recording.end.end == "interrupted"
    assert (await router.session(recording.end.session_id)).status == "released"


async def test_a_run_goes_on_when_its_worker_is_killed(
    mend_stack: Stack, router: RouterClient, tmp_path: Path
) -> None:
    process = await start(
        mend_stack, "run", "--scenario", "miniwob/enter-text", "--max-turns", "5", "--json",
        "--recordings", str(tmp_path),
    )  # fmt: skip
    folder = await one_step(tmp_path)
    session = read_recording(folder).meta.session_id
    pin = (await router.session(session)).pin
    urls = {worker.id: worker.url for worker in (await router.workers()).workers}
    victim = f"worker-{mend_stack.workers.index(urls[pin.worker_id])}"
    kill_worker(mend_stack.children[victim].process.pid)
    stdout, stderr = await asyncio.wait_for(process.communicate(), 240)
    result = json.loads(stdout)
    assert result["end"] != "error", stderr.decode()
    assert result["turns"] >= 2
    steps = read_recording(folder).taken
    assert steps[0].result.worker.id == pin.worker_id
    assert steps[-1].result.worker.id != pin.worker_id
    moves = [e for e in (await router.events(session)).events if e.type is EventType.PIN_MOVED]
    assert len(moves) == 1


async def test_a_run_records_what_a_replay_in_the_browser_compares(
    stack: Stack, tmp_path: Path
) -> None:
    code, stdout, stderr = await command(
        stack, "run", "--scenario", "miniwob/click-button", "--max-turns", "2", "--json",
        "--recordings", str(tmp_path), "--har", "--aria", "--random-seed", "5",
        "--fixed-time", "2026-01-02T03:04:05Z", "--no-animations", "--mask", "0,0,20,20",
    )  # fmt: skip
    assert code in (0, 3), stderr
    folder = Path(json.loads(stdout)["recording"])
    recording = read_recording(folder)
    page = recording.meta.page
    assert (page.random_seed, page.animations, page.network) == (5, False, "recorded")
    assert page.fixed_time is not None and page.fixed_time.year == 2026
    assert [step.aria is not None for step in recording.steps] == [True] * len(recording.steps)
    assert (await command(stack, "recording", "verify", str(folder)))[0] == 0

    browser = ("replay", str(folder), "--mode", "browser", "--network", "recorded", "--json")
    code, stdout, stderr = await command(stack, *browser)
    assert code == 0, stdout + stderr

    # the agent has it as redacted, and the script of expect.json is asked at the end
    script = {"outcome": {"expression": "document.title", "equals": "Another"}}
    (folder / "expect.json").write_text(json.dumps({"schema_version": 1, **script}))
    code, stdout, stderr = await command(stack, "replay", str(folder), "--mode", "full", "--json")
    (report,) = json.loads(stdout)
    assert code == 3, stderr
    assert [each["field"] for each in report["differences"]] == ["outcome.expression"]
    first = report["steps"][0]
    assert first["replayed"]["screenshot"] == first["recorded"]["screenshot"]
