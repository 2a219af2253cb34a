"""What became different between a recorded turn and the same turn now. Pure."""

from __future__ import annotations

import math
from typing import Any

from agentserve.core.actions import POINT_FIELDS, Action, format_action
from agentserve.core.sessions import TurnResult
from agentserve.replay.compare.difference import Difference

_POINT_NAMES = {("x", "y"): "point", ("to_x", "to_y"): "to_point"}
_COORDINATES = {name for pair in POINT_FIELDS for name in pair}


def turn_differences(
    recorded: TurnResult, replayed: TurnResult, tolerance_px: float = 0.0
) -> list[Difference]:
    """What differs in what the agent decided, in a fixed order; [] when it decided the same.

    Actions must be of one kind with equal fields; points may lie ``tolerance_px`` CSS px apart.
    Turns of a program that does not act are compared by the program's variables. Texts the model
    wrote around its decision, token counts and times are never differences.
    """
    differences: list[Difference] = []
    was, now = (turn.invalid and turn.invalid.text for turn in (recorded, replayed))
    if was != now:
        differences.append(
            Difference(comparer="action", field="invalid", recorded=was, replayed=now)
        )
    differences += action_differences(recorded.action, replayed.action, tolerance_px)
    if not (recorded.action or recorded.invalid or replayed.action or replayed.invalid):
        for name in dict.fromkeys([*recorded.variables, *replayed.variables]):
            was, now = recorded.variables.get(name), replayed.variables.get(name)
            if was != now:
                field = f"variables.{name}"
                differences.append(
                    Difference(comparer="action", field=field, recorded=was, replayed=now)
                )
    return differences


def action_differences(
    recorded: Action | None, replayed: Action | None, tolerance_px: float = 0.0
) -> list[Difference]:
    """The same for the actions alone. Of two kinds, the whole actions differ, in compact form."""
    if recorded is None or replayed is None or recorded.kind != replayed.kind:
        was, now = (action and format_action(action) for action in (recorded, replayed))
        if was == now:
            return []
        return [Difference(comparer="action", field="action", recorded=was, replayed=now)]
    differences: list[Difference] = []
    for pair in POINT_FIELDS:
        if hasattr(recorded, pair[0]):
            was, now = _point(recorded, pair), _point(replayed, pair)
            if math.dist(was, now) > tolerance_px:
                name = f"action.{_POINT_NAMES[pair]}"
                differences.append(
                    Difference(comparer="action", field=name, recorded=was, replayed=now)
                )
    for name in type(recorded).model_fields:
        was, now = getattr(recorded, name), getattr(replayed, name)
        if name not in _COORDINATES and was != now:
            differences.append(
                Difference(comparer="action", field=f"action.{name}", recorded=was, replayed=now)
            )
    return differences


def _point(action: Any, pair: tuple[str, str]) -> list[int]:
    return [getattr(action, name) for name in pair]
