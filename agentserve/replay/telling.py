"""Differences in words, for every report: one line each, without anything that could steer a
terminal or break a file."""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Iterable

from pydantic import JsonValue

from agentserve.core.actions.recorded import describe
from agentserve.replay.compare.accepting import all_differences
from agentserve.replay.compare.difference import Difference
from agentserve.replay.results import ReplayReport, Side, StepReport

MAX_SHOWN = 200
_UNSHOWN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def plain(text: str, most: int = MAX_SHOWN) -> str:
    """The text on one line, cut, with a dot for every character that is none."""
    shown = text if len(text) <= most else text[: most - 1] + "…"
    return "".join("·" if unicodedata.category(c) in _UNSHOWN else c for c in shown)


def unsteered(line: str) -> str:
    """A line of a job's log that GitHub does not take for a command: the signs of those that begin
    it, or that its older ones hold anywhere, are parted by a character without width."""
    begun = line.lstrip()
    if begun.startswith("::"):
        line = f"{line[: len(line) - len(begun)]}:\N{WORD JOINER}{begun[1:]}"
    return line.replace("##[", "##\N{WORD JOINER}[")


def value_text(value: JsonValue) -> str:
    if value is None or value == "":
        return "none"
    return plain(value if isinstance(value, str) else json.dumps(value))


CLOSING = "the page as it was left"
"""Of a step in which nothing was done."""


def done_in(step: StepReport) -> str:
    """What was done in the recorded step: one line."""
    return CLOSING if step.closing else decided(step.recorded)


def decided(side: Side) -> str:
    """What an agent, or a person, did: one line."""
    if side.action is not None:
        return plain(describe(side.action))
    if side.invalid is not None:
        return f"invalid: {plain(side.invalid.text)}"
    told = ", ".join(f"{name}: {value}" for name, value in side.variables.items())
    return plain(told) if told else "no action"


_ANEW = {
    "network": "what pages fetch is never accepted: if it is as it should be now, record the "
    "session anew, with --har",
    "outcome": "what an action or a run comes to is never accepted: if it is as it should be now, "
    "record the session anew",
}


def to_be_recorded_anew(reports: Iterable[ReplayReport]) -> list[str]:
    """What to do about the differences that no update accepts, a sentence for each kind."""
    found = {each.comparer for report in reports for each in all_differences(report)}
    return [told for comparer, told in _ANEW.items() if comparer in found]


def values_told(difference: Difference) -> bool:
    """Whether its values say more than its sentence."""
    if difference.comparer == "screen" and difference.field != "screen.size":
        return False
    return difference.recorded is not None or difference.replayed is not None


def difference_line(difference: Difference) -> str:
    """``field: recorded → replayed (message)``"""
    line = plain(difference.field)
    if values_told(difference):
        was, now = value_text(difference.recorded), value_text(difference.replayed)
        line += f": {was} → {now}"
        return f"{line} ({plain(difference.message)})" if difference.message else line
    if box := box_text(difference):
        line += f" {box}"
    return f"{line}: {plain(difference.message)}" if difference.message else line


def box_text(difference: Difference) -> str:
    """Where a region of a screen is, in CSS px; empty for what is none."""
    value = difference.replayed
    box = value.get("box") if isinstance(value, dict) else None
    if not isinstance(box, list) or len(box) != 4:
        return ""
    if not all(isinstance(side, int | float) for side in box):
        return ""
    x, y, width, height = (f"{side:g}" for side in box)
    return f"{width}x{height} at ({x}, {y})"


def lines(differences: Iterable[Difference], indent: str = "") -> list[str]:
    """One line a difference, its parts indented below it."""
    told = []
    for difference in differences:
        told.append(indent + difference_line(difference))
        told += lines(difference.parts, indent + "  ")
    return told


def counts_by_comparer(reports: Iterable[ReplayReport]) -> Counter[str]:
    """How many differences each comparer found; parts are not counted."""
    return Counter(
        difference.comparer
        for report in reports
        for difference in [
            *(each for step in report.steps for each in step.differences),
            *report.differences,
        ]
    )


def counts_text(counts: Counter[str]) -> str:
    """As ``3 action, 1 screen``; empty without any."""
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())
