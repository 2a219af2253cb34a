"""A replay's report for the terminal. Nothing is told by colour alone."""

from __future__ import annotations

import json
import unicodedata

from pydantic import JsonValue
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from agentserve.core.actions.recorded import describe
from agentserve.replay.results import ReplayReport, Side, StepReport

_MAX_SHOWN = 200
_UNSHOWN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_USAGE = (("prompt", "prompt_tokens"), ("cached", "cached_tokens"), ("visual", "visual_tokens"))


def replay_summary(report: ReplayReport) -> RenderableType:
    """A title, a table of the steps with what differs in each, and the verdict."""
    title = Text.assemble(
        ("replay of ", "bold"), (_plain(report.recording), "bold"), f"  {_plain(report.program)}: "
    )
    title.append(_plain(report.task), style="italic")
    parts: list[RenderableType] = [title]
    if report.steps:
        parts.append(_steps_table(report))
    parts += [Text(f"note: {_plain(note)}", style="yellow") for note in report.notes]
    if report.error is not None:
        parts.append(_failure_text(report))
    parts.append(_verdict(report))
    return Group(*parts)


def _steps_table(report: ReplayReport) -> Table:
    table = Table(show_edge=False, pad_edge=False)
    table.add_column("step", justify="right")
    table.add_column("")
    table.add_column("recorded", overflow="fold")
    table.add_column("what differs now", overflow="fold")
    for header, _ in _USAGE:
        table.add_column(header, justify="right", overflow="fold")
    for step in report.steps:
        mark = Text("✓", style="green") if step.same else Text("✗", style="bold red")
        table.add_row(
            str(step.index),
            mark,
            Text(_decided(step.recorded)),
            _differences(step),
            *(_both(step.recorded.usage, step.replayed.usage, name) for _, name in _USAGE),
        )
    totals = report.totals
    table.add_section()
    table.add_row(
        "",
        "",
        "all steps",
        "",
        *(_both(totals.recorded_usage, totals.replayed_usage, name) for _, name in _USAGE),
    )
    return table


def _decided(side: Side) -> str:
    if side.action is not None:
        return _plain(describe(side.action))
    if side.invalid is not None:
        return f"invalid: {_plain(side.invalid.text)}"
    return _plain(", ".join(f"{name}: {value}" for name, value in side.variables.items()))


def _differences(step: StepReport) -> Text:
    text = Text()
    for difference in step.differences:
        text.append("\n" if text else "")
        text.append(f"{_plain(difference.field)}: ", style="bold")
        text.append(_value(difference.recorded), style="green")
        text.append(" → ")
        text.append(_value(difference.replayed), style="red")
    return text


def _value(value: JsonValue) -> str:
    if value is None:
        return "none"
    return _plain(value if isinstance(value, str) else json.dumps(value))


def _both(recorded: object, replayed: object, name: str) -> str:
    was, now = (getattr(usage, name) if usage else "–" for usage in (recorded, replayed))
    return str(was) if was == now else f"{was} → {now}"


def _failure_text(report: ReplayReport) -> Text:
    error = report.error
    where = "no session" if error.index is None else f"step {error.index}"
    text = Text(f"error, {where}: {_plain(error.message)} ({error.code})", style="bold red")
    if error.hint:
        text.append(f"\n  {_plain(error.hint)}", style="not bold default")
    return text


def _verdict(report: ReplayReport) -> Text:
    totals = report.totals
    counts = (
        f"{totals.same} of {totals.recorded_steps} steps the same, {totals.different} different"
    )
    if left := totals.recorded_steps - totals.replayed_steps:
        counts += f", {left} not replayed"
    if told := ", ".join(f"{name} {value}" for name, value in report.settings.items()):
        counts += f" ({_plain(told)})"
    if report.same:
        return Text(f"✓ {counts}", style="green")
    return Text(f"✗ {counts}", style="bold red")


def _plain(text: str) -> str:
    """The text on one line without anything that could steer a terminal."""
    shown = text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…"
    return "".join("·" if unicodedata.category(c) in _UNSHOWN else c for c in shown)
