"""``agentserve recording show``: what is in a recording."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from agentserve.cli.console import out, plain

if TYPE_CHECKING:
    from agentserve.replay import Recording, StepLine


def show(
    path: Annotated[Path, typer.Argument(help="Folder or zip file of the recording.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show where a recording comes from, its steps, and what was lost at its import."""
    from agentserve.replay import read_recording

    recording = read_recording(path)
    if as_json:
        out.print_json(json.dumps(_values(recording)))
        return
    for name, value in _facts(recording):
        out.print(Text.assemble((f"{name}: ", "bold"), plain(value)))
    out.print(_table(recording))
    imported = recording.meta.imported
    for sentence in imported.lost if imported is not None else ():
        out.print(Text(f"lost at import: {plain(sentence)}", style="yellow"))


def _facts(recording: Recording) -> list[tuple[str, str]]:
    meta = recording.meta
    source = meta.source
    if meta.imported is not None:
        source += f" of {meta.imported.format} {meta.imported.version}".rstrip()
    if meta.session is not None:
        source += f", program {meta.session.program}, policy {meta.session.policy}"
    facts = [
        ("recording", f"{meta.id}, {meta.created_at:%Y-%m-%d %H:%M}"),
        ("source", source),
        ("task", meta.task),
        ("page", meta.url),
        ("viewport", f"{meta.viewport} CSS px, scale {meta.scale:g}"),
        ("holds", ", ".join(_holds(recording))),
        ("masks", ", ".join(f"{m.x:g},{m.y:g},{m.width:g},{m.height:g}" for m in meta.masks)),
        ("secrets", ", ".join(meta.secrets)),
        ("end", _end(recording)),
    ]
    return [(name, value) for name, value in facts if value]


def _holds(recording: Recording) -> list[str]:
    from agentserve.replay.bundle.format import EXPECT, NETWORK

    steps = recording.steps
    counts = {
        "steps": len(steps),
        "screenshots": len({step.screenshot for step in steps} - {None}),
        "aria snapshots": len({step.aria for step in steps} - {None}),
    }
    there = [entry for entry in (NETWORK, EXPECT) if recording.entries.has(entry)]
    return [f"{count} {name}" for name, count in counts.items() if count] + there


def _end(recording: Recording) -> str:
    end = recording.end
    if end is None:
        return "cut off"
    verdict = {True: ", success", False: ", no success", None: ""}[end.success]
    return f"{end.end}{verdict}{': ' if end.message else ''}{end.message}"


def _table(recording: Recording) -> Table:
    table = Table("step", "action", "element", "outcome", box=None, pad_edge=False)
    from agentserve.replay.telling import CLOSING

    taken = len(recording.taken)
    for step in recording.steps:
        outcome = step.outcome.status
        if step.outcome.message:
            outcome += f": {step.outcome.message}"
        action = _action(step) if step.index < taken else CLOSING
        told = (action, _element(step), outcome)
        table.add_row(str(step.index), *(Text(plain(text)) for text in told))
    return table


def _action(step: StepLine) -> str:
    from agentserve.core.actions.recorded import describe

    if step.performed is not None:
        return describe(step.performed)
    if step.result is not None and step.result.invalid is not None:
        return f"no action: {step.result.invalid.reason}"
    return step.result.text.strip() if step.result is not None else step.thought


def _element(step: StepLine) -> str:
    target = step.target
    if target is None:
        return ""
    chain = " ".join(selector.value for selector in target.selectors[0]) if target.selectors else ""
    return target.text or chain or target.tag


def _values(recording: Recording) -> dict[str, Any]:
    end = recording.end
    return {
        "name": recording.name,
        "meta": recording.meta.model_dump(mode="json"),
        "holds": _holds(recording),
        "steps": [
            {
                "index": step.index,
                "url": step.url,
                "action": _action(step),
                "element": _element(step),
                "outcome": step.outcome.model_dump(mode="json"),
                "screenshot": step.screenshot,
            }
            for step in recording.steps
        ],
        "end": None if end is None else end.model_dump(mode="json"),
    }
