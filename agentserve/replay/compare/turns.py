"""What became different between a recorded turn and the same turn now. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from agentserve.core.actions import POINT_FIELDS
from agentserve.core.actions.recorded import RecordedAction, describe
from agentserve.core.elements import ElementTarget, PageBox
from agentserve.core.sessions import TurnResult
from agentserve.replay.compare.difference import Difference
from agentserve.replay.compare.expectations import AcceptedAction, ActionRule
from agentserve.replay.compare.texts import same_text

_POINT_NAMES = {("x", "y"): "point", ("to_x", "to_y"): "to_point"}
_COORDINATES = {name for pair in POINT_FIELDS for name in pair}
_TEXTS = {"text", "value", "url"}

DEFAULT = ActionRule()


def turn_differences(
    recorded: TurnResult,
    replayed: TurnResult,
    rule: ActionRule = DEFAULT,
    *,
    target: ElementTarget | None = None,
    to_target: ElementTarget | None = None,
    accepted: Sequence[AcceptedAction] = (),
) -> list[Difference]:
    """What differs in what the agent decided, in a fixed order; [] when it decided the same.

    Actions must be of one kind with equal fields, as far as ``rule`` says. ``target`` and
    ``to_target`` are the elements that the recorded action was aimed at. Turns of a program that
    does not act are compared by the program's variables. Texts the model wrote around its decision,
    token counts and times are never differences. A decision that is one of ``accepted`` is none
    either; one that is like none of them is told against the recorded one.

    Raises InvalidRequest for a pattern of ``rule`` that is none.
    """
    if not rule.checked:
        return []
    first = AcceptedAction(
        action=recorded.action,
        box=target and target.box,
        to_box=to_target and to_target.box,
        invalid=recorded.invalid and recorded.invalid.text,
        variables=recorded.variables,
    )
    return _nearest(first, accepted, lambda one: _from(one, replayed, rule))


def action_differences(
    recorded: RecordedAction | None,
    replayed: RecordedAction | None,
    rule: ActionRule = DEFAULT,
    *,
    target: ElementTarget | None = None,
    to_target: ElementTarget | None = None,
    accepted: Sequence[AcceptedAction] = (),
) -> list[Difference]:
    """The same for the actions alone. Of two kinds, the whole actions differ, in compact form."""
    if not rule.checked:
        return []
    first = AcceptedAction(
        action=recorded, box=target and target.box, to_box=to_target and to_target.box
    )
    return _nearest(first, accepted, lambda one: _actions(one, replayed, rule))


def _nearest(
    recorded: AcceptedAction,
    accepted: Iterable[AcceptedAction],
    compare: Callable[[AcceptedAction], list[Difference]],
) -> list[Difference]:
    differences = compare(recorded)
    if differences and any(not compare(one) for one in accepted):
        return []
    return differences


def _from(one: AcceptedAction, replayed: TurnResult, rule: ActionRule) -> list[Difference]:
    differences: list[Difference] = []
    now = replayed.invalid and replayed.invalid.text
    if one.invalid != now:
        differences.append(_different("invalid", one.invalid, now))
    differences += _actions(one, replayed.action, rule)
    if one.action is None and one.invalid is None and not (replayed.action or replayed.invalid):
        for name in dict.fromkeys([*one.variables, *replayed.variables]):
            was, said = one.variables.get(name), replayed.variables.get(name)
            if was is None or said is None or not same_text(was, said, rule.texts):
                differences.append(_different(f"variables.{name}", was, said))
    return differences


def _actions(one: AcceptedAction, now: Any, rule: ActionRule) -> list[Difference]:
    was: Any = one.action
    if was is None or now is None or was.kind != now.kind:
        if was is None and now is None:
            return []
        return [_different("action", was and describe(was), now and describe(now))]
    differences: list[Difference] = []
    for pair, box in zip(POINT_FIELDS, (one.box, one.to_box), strict=True):
        if hasattr(was, pair[0]):
            points = _point(was, pair), _point(now, pair)
            if not _same_place(*points, box, rule):
                differences.append(_different(f"action.{_POINT_NAMES[pair]}", *points))
    for name in type(was).model_fields:
        values = getattr(was, name), getattr(now, name)
        if name not in _COORDINATES and not _same_value(name, *values, rule):
            differences.append(_different(f"action.{name}", *map(_json, values)))
    return differences


def _same_place(was: list[int], now: list[int], box: PageBox | None, rule: ActionRule) -> bool:
    """``box`` is that of the element at ``was``."""
    if rule.same_element and box is not None and box.holds(*was) and box.holds(*now):
        return True
    if any(region.holds(*was) and region.holds(*now) for region in rule.regions):
        return True
    return math.dist(was, now) <= rule.tolerance_px


def _same_value(name: str, was: Any, now: Any, rule: ActionRule) -> bool:
    if name in _TEXTS and isinstance(was, str) and isinstance(now, str):
        return same_text(was, now, rule.texts)
    return was == now


def _point(action: Any, pair: tuple[str, str]) -> list[int]:
    return [getattr(action, name) for name in pair]


def _json(value: Any) -> Any:
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value


def _different(field: str, recorded: Any, replayed: Any) -> Difference:
    return Difference(comparer="action", field=field, recorded=recorded, replayed=replayed)
