"""Runs as one HTML page."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentserve.core.actions.recorded import describe
from agentserve.core.config import MIB
from agentserve.core.model import Wire
from agentserve.core.runs import EndReason
from agentserve.replay.bundle.format import StepLine
from agentserve.replay.bundle.reader import Recording
from agentserve.replay.pages.page import Pictures, write_page
from agentserve.replay.telling import CLOSING

MAX_PICTURE_BYTES = 96 * MIB
"""Screenshots beyond this sum are left out of a page, which says so."""


class RunRow(Wire):
    """One run in a table."""

    name: str
    recording: str
    task: str
    success: bool | None
    """The task's own check; None when it has none or the run was cut off."""
    end: EndReason | None
    """None when the run was cut off."""
    turns: int
    prompt_tokens: int
    cached_tokens: int
    median_turn_ms: float | None


@dataclass(frozen=True)
class RunView:
    """A run to be shown under a name."""

    name: str
    recording: Recording


def run_row(run: RunView) -> RunRow:
    """The numbers of a run, summed over its whole steps."""
    recording = run.recording
    results = [step.result for step in recording.steps if step.result]
    usages = [result.usage for result in results]
    times = [result.timings.total_ms for result in results]
    return RunRow(
        name=run.name,
        recording=recording.meta.id,
        task=recording.meta.task,
        success=recording.end.success if recording.end else None,
        end=recording.end.end if recording.end else None,
        turns=len(recording.taken),
        prompt_tokens=sum(usage.prompt_tokens for usage in usages),
        cached_tokens=sum(usage.cached_tokens for usage in usages),
        median_turn_ms=statistics.median(times) if times else None,
    )


def write_run_page(
    path: Path,
    runs: Sequence[RunView],
    *,
    title: str,
    facts: Sequence[tuple[str, str]] = (),
) -> None:
    """Write the page. ``facts`` are name and value pairs shown under the title.

    Blocking. Raises RecordingError for a damaged screenshot and when the page cannot be written.
    """
    pictures = Pictures(MAX_PICTURE_BYTES)
    for run in runs:
        for sha in [step.screenshot for step in run.recording.steps if step.screenshot]:
            pictures.add(sha, lambda run=run, sha=sha: run.recording.screenshot(sha))
    data = {
        "title": title,
        "facts": [list(fact) for fact in facts],
        "runs": [_run(run) for run in runs],
        "pictures": pictures.uris,
    }
    write_page(path, "run", title, data)


def _run(run: RunView) -> dict[str, Any]:
    meta, end = run.recording.meta, run.recording.end
    session = meta.session
    return {
        "row": run_row(run).model_dump(mode="json"),
        "message": end.message if end else "",
        "source": f"{meta.imported.format} import" if meta.imported else f"a {meta.source}",
        "program": session.program if session else None,
        "policy": session.policy if session else None,
        "model": meta.worker.served_model_name if meta.worker else session and session.model,
        "scenario": meta.scenario.model_dump() if meta.scenario else None,
        "created_at": meta.created_at.isoformat(timespec="seconds"),
        "css": [meta.viewport.width, meta.viewport.height],
        "model_size": [meta.space.model.width, meta.space.model.height] if meta.space else None,
        "steps": [_step(step, run.recording) for step in run.recording.steps],
    }


def _step(step: StepLine, recording: Recording) -> dict[str, Any]:
    result = step.result
    nothing = "" if step.index < len(recording.taken) else CLOSING
    action = step.performed or (result and result.action)
    return {
        "index": step.index,
        "picture": step.screenshot,
        "url": step.url,
        "instruction": step.instruction,
        "told": step.outcome_sent.model_dump() if step.outcome_sent else None,
        "action": action.model_dump() if action else None,
        "action_text": describe(action) if action else nothing,
        "invalid": result.invalid.model_dump() if result and result.invalid else None,
        "outcome": step.outcome.model_dump(),
        "text": result.text if result else step.thought,
        "variables": result.variables if result else {},
        "usage": result.usage.model_dump(exclude={"calls"}) if result else None,
        "timings": result.timings.model_dump() if result else None,
        "step_ms": step.step_ms,
        "worker": result.worker.id if result else None,
        "move": result.move if result else None,
        "attempts": result.attempts if result else 1,
    }
