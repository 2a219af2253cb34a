"""`agentserve demo` over the running stack. That it starts and stops a stack of its own is what
tests/conftest.py does with the same code."""

from __future__ import annotations

import json
from pathlib import Path

from e2e.helpers import command

from agentserve.cli.demo import TASKS
from agentserve.cli.stack import Stack
from agentserve.replay import read_recording


async def test_the_demo_runs_its_five_tasks(stack: Stack, tmp_path: Path) -> None:
    code, stdout, stderr = await command(
        stack, "demo", "--router", stack.router, "--max-turns", "2", "--json",
        "--recordings", str(tmp_path),
    )  # fmt: skip
    assert code == 0, stderr
    result = json.loads(stdout)
    assert [task["task"] for task in result["tasks"]] == list(TASKS)
    for task in result["tasks"]:
        assert task["end"] in ("max_turns", "task_ended", "done", "call_user", "invalid_actions")
        assert task["turns"] >= 1
        assert task["prompt_tokens"] > 0
        assert task["median_turn_s"] > 0
        assert 0 < task["sent_tokens"] <= task["screen_tokens"]
    cold = [task for task in result["tasks"] if not task["cached_tokens"]]
    assert len(cold) <= len(stack.workers), "the programs' text is a shared prefix"
    page = Path(result["page"])
    assert page.parent == tmp_path
    assert "admin/sign-in" in page.read_text()
    recordings = [folder for folder in tmp_path.iterdir() if folder.is_dir()]
    assert len(recordings) == 5
    assert all(read_recording(folder).complete for folder in recordings)


async def test_an_unknown_task_is_refused_before_anything_starts(
    stack: Stack, tmp_path: Path
) -> None:
    code, _, stderr = await command(stack, "demo", "--task", "miniwob/click-tset")
    assert code == 1
    assert "click-test" in stderr
