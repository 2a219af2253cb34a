"""Runs as one HTML page that needs nothing but itself: no network, no server, no other file.

Everything that came from a model, a page or a recording is hostile. It enters the page as JSON in
a data block, is shown by textContent only, and a content security policy allows no script and no
style but the page's own, by hash, and pictures from data URIs alone.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from agentserve.core.actions.recorded import describe
from agentserve.core.config import MIB
from agentserve.core.errors import RecordingError
from agentserve.core.model import Wire
from agentserve.core.runs import EndReason
from agentserve.replay.bundle.files import write_whole
from agentserve.replay.bundle.format import StepLine
from agentserve.replay.bundle.reader import Recording

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
        turns=len(recording.steps),
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
    page = _page(runs, title, facts).encode("utf-8", errors="replace")
    try:
        write_whole(path, page)
    except OSError as error:
        raise RecordingError(f"cannot write the page {path}: {error.strerror or error}") from error


def _page(runs: Sequence[RunView], title: str, facts: Sequence[tuple[str, str]]) -> str:
    data = {
        "title": title,
        "facts": [list(fact) for fact in facts],
        "runs": [_run(run) for run in runs],
        "pictures": _pictures(runs),
    }
    style, script = _asset("run.css"), _asset("run.js")
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_csp_hash(style)}'; "
        f"script-src '{_csp_hash(script)}'; base-uri 'none'; form-action 'none'"
    )
    parts = {
        "policy": policy,
        "title": html.escape(title),
        "style": style,
        "script": script,
        "data": _script_json(data),
    }
    # one pass: what is put in is never searched for placeholders
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _asset("run.html"))


def _run(run: RunView) -> dict[str, Any]:
    meta, end = run.recording.meta, run.recording.end
    session = meta.session
    return {
        "row": run_row(run).model_dump(mode="json"),
        "message": end.message if end else "",
        "program": session.program if session else meta.source,
        "policy": session.policy if session else None,
        "model": meta.worker.served_model_name if meta.worker else session and session.model,
        "scenario": meta.scenario.model_dump() if meta.scenario else None,
        "created_at": meta.created_at.isoformat(timespec="seconds"),
        "css": [meta.viewport.width, meta.viewport.height],
        "model_size": [meta.space.model.width, meta.space.model.height] if meta.space else None,
        "steps": [_step(step) for step in run.recording.steps],
    }


def _step(step: StepLine) -> dict[str, Any]:
    result = step.result
    action = step.performed or (result and result.action)
    return {
        "index": step.index,
        "picture": step.screenshot,
        "url": step.url,
        "instruction": step.instruction,
        "told": step.outcome_sent.model_dump() if step.outcome_sent else None,
        "action": action.model_dump() if action else None,
        "action_text": describe(action) if action else "",
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


def _pictures(runs: Sequence[RunView]) -> dict[str, str]:
    """Data URIs of the screenshots by hash, each once, while they fit."""
    pictures: dict[str, str] = {}
    room = MAX_PICTURE_BYTES
    for run in runs:
        for sha in dict.fromkeys(s.screenshot for s in run.recording.steps if s.screenshot):
            if sha in pictures:
                continue
            png = run.recording.screenshot(sha)
            if len(png) <= room:
                room -= len(png)
                pictures[sha] = "data:image/png;base64," + base64.b64encode(png).decode()
    return pictures


def _script_json(data: Any) -> str:
    """JSON in which nothing can end the script element that holds it."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _csp_hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _asset(name: str) -> str:
    return (resources.files("agentserve.replay") / "pages" / "files" / name).read_text(
        encoding="utf-8"
    )
