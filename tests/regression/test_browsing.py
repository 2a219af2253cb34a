"""The mode browser as agentserve replay runs it, on the bundled recordings' own pages."""

from __future__ import annotations

import shutil
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from agentserve.regression.options import ReplayOptions
from agentserve.regression.parts import Parts
from agentserve.regression.replaying import replay_one
from agentserve.replay import ReplayReport, read_recording
from agentserve.replay.bundle.format import STEPS
from agentserve.replay.compare.expectations import (
    ActionRule,
    Expectations,
    OutcomeRule,
    save_expectations,
)

BUNDLED = Path(__file__).parents[2] / "scenarios/miniwob/recordings"


def no_router() -> AbstractAsyncContextManager[Any]:
    raise AssertionError("a browser needs no router")


async def test_what_the_page_comes_to_is_compared(tmp_path: Path) -> None:
    """The task's own check, and what expect.json asks the page."""
    shutil.copytree(BUNDLED / "enter-text-0", tmp_path / "own")
    shutil.copytree(BUNDLED / "enter-text-0", tmp_path / "failing")
    lines = (tmp_path / "failing" / STEPS).read_text()
    (tmp_path / "failing" / STEPS).write_text(lines.replace("Agustina", "Agatha"))

    async with Parts(no_router) as parts:

        async def replayed(name: str, expression: str = "", equals: Any = True) -> ReplayReport:
            outcome = OutcomeRule(expression=expression or None, equals=equals)
            rules = Expectations(actions=ActionRule(), outcome=outcome)
            save_expectations(tmp_path / name, rules)
            recording = read_recording(tmp_path / name)
            return (await replay_one(parts, recording, name, ReplayOptions("browser"))).report

        same = await replayed("own", "document.querySelector('#tt').value", "Agustina")
        assert same.same, same.model_dump_json()
        for expression, told in {
            "1 + 1": "another value",
            "document.nobody.value": "the page answered",
        }.items():
            report = await replayed("own", expression)
            (difference,) = report.differences
            assert (difference.comparer, difference.field) == ("outcome", "outcome.expression")
            assert told in difference.message and not report.same
        failed = await replayed("failing")
        assert "outcome.success" in [difference.field for difference in failed.differences]
