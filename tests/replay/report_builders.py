"""Reports with something of everything, for what shows them."""

from __future__ import annotations

from typing import Any

from agentserve.core.actions import Click, Type
from agentserve.core.sessions import Usage
from agentserve.replay import ReplayReport, StepReport
from agentserve.replay.compare.difference import Difference
from agentserve.replay.results import ReplayFailure, Side, Totals

POINT = Difference(comparer="action", field="action.point", recorded=[40, 60], replayed=[90, 60])
REGION = Difference(
    comparer="screen",
    field="screen.region",
    replayed={"box": [12, 8.5, 100, 32], "share": 0.8},
    message="80% of it differs",
)
SCREEN = Difference(
    comparer="screen",
    field="screen",
    recorded=0.0,
    replayed=0.02,
    message="2.00% of the screen differs (752 px in 1 region)",
    parts=[REGION],
)
FAILURE = ReplayFailure(index=1, code="worker_lost", message="the worker died", hint="ask again")


def make_side(prompt: int = 200, cached: int = 100, **update: Any) -> Side:
    usage = Usage(prompt_tokens=prompt, cached_tokens=cached, visual_tokens=80)
    return Side(**{"action": Click(x=40, y=60), "usage": usage, **update})


def make_step_report(index: int, *differences: Difference, **update: Any) -> StepReport:
    fields = {
        "index": index,
        "recorded": make_side(),
        "replayed": make_side(action=Type(text="x")) if differences else make_side(),
        "same": not differences,
        "differences": list(differences),
    }
    return StepReport(**{**fields, **update})


def make_report(*steps: StepReport, **update: Any) -> ReplayReport:
    def total(side: str) -> Usage:
        usage = Usage()
        for step in steps:
            usage = usage.plus(getattr(step, side).usage or Usage())
        return usage

    different = sum(not step.same for step in steps)
    fields: dict[str, Any] = {
        "recording": "clean",
        "name": "clean",
        "mode": "model",
        "program": "navigator",
        "task": "Click on the “Ok” button.",
        "complete": True,
        "steps": list(steps),
        "totals": Totals(
            recorded_steps=len(steps),
            replayed_steps=len(steps),
            same=len(steps) - different,
            different=different,
            recorded_usage=total("recorded"),
            replayed_usage=total("replayed"),
        ),
        "seconds": 1.25,
    }
    fields |= update
    fields["same"] = not (different or fields.get("differences") or fields.get("error"))
    return ReplayReport(**fields)
