"""What became different between a recorded turn and the same turn now. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agentserve.core.actions import POINT_FIELDS
from agentserve.core.actions.recorded import RecordedAction, describe
from agentserve.core.elements import Chain, ElementTarget, PageBox
from agentserve.core.screens import Size
from agentserve.core.sessions import TurnResult
from agentserve.replay.compare.difference import Difference, against_accepted
from agentserve.replay.compare.expectations import AcceptedAction, ActionRule
from agentserve.replay.compare.texts import same_text

_POINT_NAMES = {("x", "y"): "point", ("to_x", "to_y"): "to_point"}
_COORDINATES = {name for pair in POINT_FIELDS for name in pair}
_TEXTS = {"text", "value", "url"}
_SURFACES = {"html", "body", "canvas", "svg", "video", "object", "embed", "map"}
_SURFACES |= {"frame", "frameset", "iframe"}
"""Tags of elements in which it matters where they are hit."""
_SURFACE_ROLES = {"application", "slider", "scrollbar", "separator"}
_LARGEST_SHARE = 0.25
"""Of the viewport: a larger element holds others, or is one that is not hit just anywhere."""

DEFAULT = ActionRule()
Elements = tuple[ElementTarget | None, ElementTarget | None]
"""What an action was aimed at, and of a drag what it ended on."""
NOT_KNOWN: Elements = (None, None)
UNTOLD: tuple[bool | None, bool | None] = (None, None)


@dataclass(frozen=True)
class _Hit:
    """What is known of what two actions hit, beside their points."""

    viewport: Size | None
    same: tuple[bool | None, bool | None]
    """Whether it is one element; None: their boxes must tell."""


def turn_differences(
    recorded: TurnResult,
    replayed: TurnResult,
    rule: ActionRule = DEFAULT,
    *,
    target: ElementTarget | None = None,
    to_target: ElementTarget | None = None,
    now: Elements = NOT_KNOWN,
    viewport: Size | None = None,
    accepted: Sequence[AcceptedAction] = (),
) -> list[Difference]:
    """What differs in what the agent decided, in a fixed order; [] when it decided the same.

    Actions must be of one kind with equal fields, as far as ``rule`` says. ``target`` and
    ``to_target`` are the elements that the recorded action was aimed at, ``now`` those of the
    replayed one where the replay knows them; ``viewport`` is in CSS px. Turns of a program that
    does not act are compared by the program's variables. Texts the model wrote around its decision,
    token counts and times are never differences. Where something was ``accepted``, it stands in the
    recorded decision's place: one that is like none of it is told against the nearest.

    Raises InvalidRequest for a pattern of ``rule`` that is none.
    """
    if not rule.checked:
        return []
    first = AcceptedAction(
        action=recorded.action,
        box=element_box(target),
        to_box=element_box(to_target),
        invalid=recorded.invalid and recorded.invalid.text,
        variables=recorded.variables,
    )
    same = _same_elements((target, to_target), now)
    return _nearest(
        first,
        accepted,
        lambda one: _from(one, replayed, rule, _Hit(viewport, same if _as(first, one) else UNTOLD)),
    )


def action_differences(
    recorded: RecordedAction | None,
    replayed: RecordedAction | None,
    rule: ActionRule = DEFAULT,
    *,
    target: ElementTarget | None = None,
    to_target: ElementTarget | None = None,
    now: Elements = NOT_KNOWN,
    viewport: Size | None = None,
    accepted: Sequence[AcceptedAction] = (),
) -> list[Difference]:
    """The same for the actions alone. Of two kinds, the whole actions differ, in compact form."""
    if not rule.checked:
        return []
    first = AcceptedAction(action=recorded, box=element_box(target), to_box=element_box(to_target))
    same = _same_elements((target, to_target), now)
    return _nearest(
        first,
        accepted,
        lambda one: _actions(
            one, replayed, rule, _Hit(viewport, same if _as(first, one) else UNTOLD)
        ),
    )


def element_box(target: ElementTarget | None) -> PageBox | None:
    """The box in which all points hit the element alike; None where it matters which one is hit."""
    if target is None or target.tag.lower() in _SURFACES:
        return None
    roles = {chain[-1].role for chain in target.selectors}
    return None if roles & _SURFACE_ROLES else target.box


def _nearest(
    recorded: AcceptedAction,
    accepted: Sequence[AcceptedAction],
    compare: Callable[[AcceptedAction], list[Difference]],
) -> list[Difference]:
    if not accepted:
        return compare(recorded)
    # of the nearest ones the newest
    return against_accepted(min(map(compare, reversed(accepted)), key=len))


def _as(recorded: AcceptedAction, one: AcceptedAction) -> bool:
    """Whether it is the recorded action, aimed at the recorded element."""
    return (one.action, one.box, one.to_box) == (recorded.action, recorded.box, recorded.to_box)


def _from(
    one: AcceptedAction, replayed: TurnResult, rule: ActionRule, hit: _Hit
) -> list[Difference]:
    differences: list[Difference] = []
    now = replayed.invalid and replayed.invalid.text
    if one.invalid != now:
        differences.append(_different("invalid", one.invalid, now))
    differences += _actions(one, replayed.action, rule, hit)
    if one.action is None and one.invalid is None and not (replayed.action or replayed.invalid):
        for name in dict.fromkeys([*one.variables, *replayed.variables]):
            was, said = one.variables.get(name), replayed.variables.get(name)
            if was is None or said is None or not same_text(was, said, rule.texts):
                differences.append(_different(f"variables.{name}", was, said))
    return differences


def _actions(one: AcceptedAction, now: Any, rule: ActionRule, hit: _Hit) -> list[Difference]:
    was: Any = one.action
    if was is None or now is None or was.kind != now.kind:
        if was is None and now is None:
            return []
        return [_different("action", was and describe(was), now and describe(now))]
    differences: list[Difference] = []
    boxes = (_small(box, hit.viewport) for box in (one.box, one.to_box))
    for pair, box, same in zip(POINT_FIELDS, boxes, hit.same, strict=True):
        if hasattr(was, pair[0]):
            points = _point(was, pair), _point(now, pair)
            if not _same_place(*points, box, same, rule):
                differences.append(_different(f"action.{_POINT_NAMES[pair]}", *points))
    for name in type(was).model_fields:
        values = getattr(was, name), getattr(now, name)
        if name not in _COORDINATES and not _same_value(name, *values, rule):
            differences.append(_different(f"action.{name}", *map(_json, values)))
    return differences


def _same_place(
    was: list[int], now: list[int], box: PageBox | None, same: bool | None, rule: ActionRule
) -> bool:
    """``box`` is that of the element at ``was``; ``same`` is whether the replayed point's is that
    element, where that is known."""
    if rule.same_element and box is not None and same is not False:
        if same or (box.holds(*was) and box.holds(*now)):
            return True
    return same_point(was, now, rule)


def _small(box: PageBox | None, viewport: Size | None) -> PageBox | None:
    """None for a box that is no single thing to hit."""
    if box is None or viewport is None:
        return box
    share = box.width * box.height / (viewport.width * viewport.height)
    return box if share <= _LARGEST_SHARE else None


def _same_elements(was: Elements, now: Elements) -> tuple[bool | None, bool | None]:
    one, other = (_same_element(*pair) for pair in zip(was, now, strict=True))
    return one, other


def _same_element(was: ElementTarget | None, now: ElementTarget | None) -> bool | None:
    """By the selectors that say which element it is; one that says where it is may find another one
    there. None: that is not known."""
    if was is None or now is None:
        return None
    told, told_now = (
        {chain for chain in target.selectors if not by_place(chain)} for target in (was, now)
    )
    return bool(told & told_now) if told and told_now else None


def same_point(was: Sequence[float], now: Sequence[float], rule: ActionRule) -> bool:
    """Whether two points in CSS px are one to the rule, whatever lies there."""
    if any(region.holds(*was) and region.holds(*now) for region in rule.regions):
        return True
    return math.dist(was, now) <= rule.tolerance_px


def by_place(chain: Chain) -> bool:
    """Whether a chain says where its element is, and not which one it is."""
    last = chain[-1]
    return last.engine == "xpath" or (last.engine == "css" and ":nth-" in last.value)


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
