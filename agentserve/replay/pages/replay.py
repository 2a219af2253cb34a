"""Replays as one HTML page: screens side by side or under a slider, and all that differs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from agentserve.core.actions.recorded import describe
from agentserve.core.config import MIB
from agentserve.replay.compare.difference import Difference
from agentserve.replay.compare.expectations import expectations_of
from agentserve.replay.compare.screens import compare_screens
from agentserve.replay.compare.viewports import viewport_at
from agentserve.replay.heatmap import LEGEND, TINTS
from agentserve.replay.pages.page import Pictures, write_page
from agentserve.replay.results import Replayed, Side, StepReport
from agentserve.replay.telling import (
    CLOSING,
    counts_by_comparer,
    difference_line,
    to_be_recorded_anew,
)

MAX_PICTURE_BYTES = 96 * MIB
"""Pictures beyond this sum are left out of a page, which says so; those of steps that differ come
first."""


def write_replay_page(path: Path, results: Sequence[Replayed], *, title: str) -> None:
    """Write the page of a replay run, of any mode and any number of recordings.

    Blocking: screens that differ are compared again, to mark their pixels. Raises RecordingError
    for a damaged entry of a recording and when the page cannot be written.
    """
    pictures = Pictures(MAX_PICTURE_BYTES)
    for wanted in (False, True):  # what differs first
        for result in results:
            for step in result.report.steps:
                if step.same is wanted:
                    _add_pictures(pictures, result, step)
    data = {
        "title": title,
        "replays": [_replay(result) for result in results],
        "pictures": pictures.uris,
        "tints": [[list(colour), share] for colour, share in _tints()],
        "legend": LEGEND,
    }
    write_page(path, "replay", title, data, scripts=["replay_parts"])


def _tints() -> Iterable[tuple[tuple[int, int, int], float]]:
    """Colour and share of a token by 2 * sent + live."""
    return (TINTS[bool(number & 2), bool(number & 1)] for number in range(4))


def _add_pictures(pictures: Pictures, result: Replayed, step: StepReport) -> None:
    shas = [side.screenshot for side in (step.recorded, step.replayed)]
    for sha in shas:
        if sha is not None:
            pictures.add(sha, lambda sha=sha: _screenshot(result, sha))
    name = _marks_name(step)
    if name is not None:
        pictures.add(name, lambda: _marks(result, step))


def _screenshot(result: Replayed, sha256: str) -> bytes:
    taken = result.pictures.get(sha256)
    if taken is not None:
        return taken
    assert result.recording is not None  # without one there is no step
    return result.recording.screenshot(sha256)


def _marks_name(step: StepReport) -> str | None:
    """The picture of a step's different pixels; None when its screens do not differ."""
    was, now = step.recorded.screenshot, step.replayed.screenshot
    if was is None or now is None or not any(d.field == "screen" for d in step.differences):
        return None
    return f"{was}-{now}-{step.index}"


def _marks(result: Replayed, step: StepReport) -> bytes | None:
    was, now = step.recorded.screenshot, step.replayed.screenshot
    assert was is not None and now is not None and result.recording is not None
    rules = result.expectations or expectations_of(result.recording)
    comparison = compare_screens(
        _screenshot(result, was),
        _screenshot(result, now),
        rules.at(step.index).screens,
        viewport=viewport_at(result.recording, step.index),
    )
    return comparison.picture


def _replay(result: Replayed) -> dict[str, Any]:
    report = result.report
    viewport = result.recording and result.recording.meta.viewport
    return {
        "name": report.name,
        "recording": report.recording,
        "mode": report.mode,
        "program": report.program,
        "task": report.task,
        "same": report.same,
        "complete": report.complete,
        "settings": list(report.settings.items()),
        "seconds": report.seconds,
        "css": [viewport.width, viewport.height] if viewport else [0, 0],
        "found": dict(counts_by_comparer([report])),
        "differences": [_difference(difference) for difference in report.differences],
        "notes": [*report.notes, *to_be_recorded_anew([report])],
        "error": report.error.model_dump() if report.error else None,
        "totals": report.totals.model_dump(mode="json"),
        "steps": [_step(step) for step in report.steps],
    }


def _step(step: StepReport) -> dict[str, Any]:
    return {
        "index": step.index,
        "same": step.same,
        "compared": step.compared,
        "differences": [_difference(difference) for difference in step.differences],
        "marks": _marks_name(step),
        "recorded": _side(step.recorded, step.closing),
        "replayed": _side(step.replayed, step.closing),
    }


def _side(side: Side, closing: bool) -> dict[str, Any]:
    nothing = CLOSING if closing else ""
    return {
        "picture": side.screenshot,
        "action": side.action.model_dump(mode="json") if side.action else None,
        "action_text": describe(side.action) if side.action else nothing,
        "invalid": side.invalid.model_dump() if side.invalid else None,
        "text": side.text,
        "variables": side.variables,
        "usage": side.usage.model_dump(exclude={"calls"}) if side.usage else None,
        "tokens": side.token_map.model_dump() if side.token_map else None,
        "rebuilt": side.rebuilt,
        "ms": side.ms,
    }


def _difference(difference: Difference) -> dict[str, Any]:
    return {
        "comparer": difference.comparer,
        "line": difference_line(difference),
        "recorded_box": _box(difference.recorded),
        "replayed_box": _box(difference.replayed),
        "parts": [_difference(part) for part in difference.parts],
    }


def _box(value: Any) -> list[float] | None:
    """``[x, y, width, height]`` in CSS px, where a value names a box."""
    box = value.get("box") if isinstance(value, dict) else None
    if isinstance(box, list) and len(box) == 4 and all(isinstance(v, int | float) for v in box):
        return [float(side) for side in box]
    return None
