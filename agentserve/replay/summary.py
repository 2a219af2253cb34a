"""What replays found, for the terminal: a tree of differences. Nothing is told by colour alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text
from rich.tree import Tree

from agentserve.core.sessions import Usage
from agentserve.replay.compare.accepting import acceptable
from agentserve.replay.compare.difference import Difference
from agentserve.replay.results import ReplayReport, StepReport
from agentserve.replay.telling import (
    box_text,
    counts_by_comparer,
    counts_text,
    done_in,
    plain,
    to_be_recorded_anew,
    unsteered,
    value_text,
    values_told,
)

_USAGE = (("prompt", "prompt_tokens"), ("cached", "cached_tokens"), ("visual", "visual_tokens"))
_MAX_STEPS = 60
"""Of a longer replay, steps that are the same are only counted."""
_MAX_LISTED = 8
"""Of what differs in one place; pages and JUnit files have all of it."""


class _Whole(Tree):
    """A tree whose lines are wrapped where a console would cut them: it must not lose what an
    error says, also when the output goes to a file."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        return super().__rich_console__(console, options.update(no_wrap=False, overflow="fold"))


class Unsteered:
    """Something to print, of whose lines none is a command of GitHub's, wherever it is wrapped."""

    def __init__(self, inside: RenderableType) -> None:
        self._inside = inside

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in Segment.split_lines(console.render(self._inside, options)):
            text = "".join(segment.text for segment in line if not segment.control)
            safe = unsteered(text)
            yield from line if safe == text else [Segment(safe)]
            yield Segment.line()


def replay_summary(
    report: ReplayReport, *, page: Path | None = None, update: str | None = "--update"
) -> RenderableType:
    """One replay in full: its steps, what differs in them, and what to do next. ``page`` is where
    its HTML page lies, ``update`` the option that accepts what differs; None: there is none, or
    it was given."""
    tree = _Whole(_title(report), guide_style="dim")
    whole = len(report.steps) <= _MAX_STEPS
    for step in report.steps:
        if whole or not step.same:
            _add_step(tree, step)
    if not whole:
        tree.add(Text.assemble(_mark(True), f" {report.totals.same} steps the same"))
    _add_rest(tree, report)
    return Unsteered(Group(tree, _verdict(report), *_next([report], page, update)))


def replays_summary(
    reports: Sequence[ReplayReport], *, page: Path | None = None, update: str | None = "--update"
) -> RenderableType:
    """Many replays: a line for each that found nothing, a tree for the others, and the counts."""
    tree = _Whole(Text(_count(len(reports), "replay"), style="bold"), guide_style="dim")
    for report in reports:
        branch = tree.add(Text.assemble(_mark(report.same), " ", _title(report)))
        if not report.same:
            for step in report.steps:
                if not step.same:
                    _add_step(branch, step)
            _add_rest(branch, report)
            branch.add(_verdict(report))
    return Unsteered(Group(tree, _all_told(reports), *_next(reports, page, update)))


def _title(report: ReplayReport) -> Text:
    title = Text.assemble((plain(report.name), "bold"), f"  {report.mode}")
    if report.program:
        title.append(f", {plain(report.program)}")
    if report.task:
        title.append(": ").append(plain(report.task), style="italic")
    return title


def _mark(same: bool) -> Text:
    return Text("✓", style="green") if same else Text("✗", style="bold red")


def _add_step(tree: Tree, step: StepReport) -> None:
    not_compared = step.same and not step.compared
    mark = Text("–", style="yellow") if not_compared else _mark(step.same)
    line = Text.assemble(mark, f" step {step.index}  ", done_in(step))
    if costs := _costs(step.recorded.usage, step.replayed.usage):
        line.append(f"  {costs}", style="dim")
    if not_compared:
        line.append("  not compared", style="yellow")
    _add_differences(tree.add(line), step.differences)


def _add_rest(tree: Tree, report: ReplayReport) -> None:
    _add_differences(tree, report.differences)
    for note in report.notes:
        tree.add(Text(f"note: {plain(note)}", style="yellow"))
    if report.error is not None:
        tree.add(_failure_text(report))


def _add_differences(tree: Tree, differences: Sequence[Difference]) -> None:
    for difference in differences[:_MAX_LISTED]:
        _add_differences(tree.add(_difference(difference)), difference.parts)
    if (left := len(differences) - _MAX_LISTED) > 0:
        tree.add(Text(f"… and {left} more", style="dim"))


def _difference(difference: Difference) -> Text:
    text = Text(plain(difference.field), style="bold")
    if box := box_text(difference):
        text.append(f" {box}", style="not bold")
    told = difference.message
    if values_told(difference):
        text.append(": ", style="not bold")
        text.append(value_text(difference.recorded), style="not bold green")
        text.append(" → ", style="not bold")
        text.append(value_text(difference.replayed), style="not bold red")
        told = f" ({told})" if told else ""
    elif told:
        told = f": {told}"
    return text.append(plain(told), style="not bold")


def _costs(recorded: Usage | None, replayed: Usage | None) -> str:
    if recorded is None and replayed is None:
        return ""
    return ", ".join(f"{label} {_both(recorded, replayed, name)}" for label, name in _USAGE)


def _both(recorded: Usage | None, replayed: Usage | None, name: str) -> str:
    was, now = (getattr(usage, name) if usage else "–" for usage in (recorded, replayed))
    return str(was) if was == now else f"{was} → {now}"


def _failure_text(report: ReplayReport) -> Text:
    error = report.error
    assert error is not None
    if error.index is not None:
        where = f"error, step {error.index}"
    else:  # or it was replayed, and could not be accepted
        where = "error" if report.steps else "error, before the first step"
    text = Text(f"{where}: {plain(error.message)} ({plain(error.code)})", style="bold red")
    if error.hint:
        text.append(f"\n  {plain(error.hint)}", style="not bold default")
    return text


def _verdict(report: ReplayReport) -> Text:
    totals = report.totals
    counts = (
        f"{totals.same} of {totals.recorded_steps} steps the same, {totals.different} different"
    )
    if totals.not_compared:
        counts += f", {totals.not_compared} not compared"
    if left := totals.recorded_steps - totals.replayed_steps:
        counts += f", {left} not replayed"
    if found := counts_text(counts_by_comparer([report])):
        counts += f": {found}"
    if told := ", ".join(f"{name} {value}" for name, value in report.settings.items()):
        counts += f" ({plain(told)})"
    if any(step.recorded.usage or step.replayed.usage for step in report.steps):
        counts += f"  {_costs(totals.recorded_usage, totals.replayed_usage)}"
    return Text.assemble(_mark(report.same), " ", (counts, "green" if report.same else "bold red"))


def _all_told(reports: Sequence[ReplayReport]) -> Text:
    same = sum(report.same for report in reports)
    errors = sum(report.error is not None for report in reports)
    counts = f"{same} of {_count(len(reports), 'replay')} the same"
    if different := len(reports) - same - errors:
        counts += f", {different} different"
    if errors:
        counts += f", {_count(errors, 'error')}"
    if found := counts_text(counts_by_comparer(reports)):
        counts += f": {found}"
    good = same == len(reports)
    return Text.assemble(_mark(good), " ", (counts, "green" if good else "bold red"))


def _next(reports: Sequence[ReplayReport], page: Path | None, update: str | None) -> list[Text]:
    steps = []
    if page is not None:
        steps.append(Text(f"see them side by side: {page}", overflow="fold"))
    if update is not None and any(acceptable(report) for report in reports):
        steps.append(Text(f"what is as it should be now: the same command with {update}"))
    return steps + [Text(told) for told in to_be_recorded_anew(reports)]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
