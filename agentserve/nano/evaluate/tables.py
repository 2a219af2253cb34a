"""The tables of an evaluation: for the terminal, and as Markdown between two marks of a file."""

from __future__ import annotations

from rich.table import Table

from agentserve.browser.miniwob import SUCCESS
from agentserve.core.errors import InvalidRequest
from agentserve.nano.evaluate.episodes import BASELINES, PlayerName
from agentserve.nano.evaluate.report import Report
from agentserve.nano.evaluate.scores import HASH_DIGITS, MASTERED, Score, Scores, TaskScores

BEGIN = "<!-- nano-evaluation:begin -->"
END = "<!-- nano-evaluation:end -->"


def rich_table(scores: Scores, title: str) -> Table:
    """One row a task, and a last one of means."""
    head, rows = _grid(scores)
    table = Table(title=title, title_justify="left")
    table.add_column(head[0], no_wrap=True)
    for name in head[1:]:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows[:-1]:
        table.add_row(*row)
    table.add_section()
    table.add_row(*rows[-1])
    return table


def markdown(report: Report) -> str:
    """The same table, and under it a paragraph that says what was measured and how to repeat it."""
    head, rows = _grid(report.scores)
    lines = [head, ["---", *("--:" for _ in head[1:])], *rows]
    table = "\n".join(f"| {' | '.join(cell or ' ' for cell in line)} |" for line in lines)
    return f"{table}\n\n{_paragraph(report)}"


def verdict(scores: Scores) -> str:
    """``mean success 84.5 %, 7 of 12 tasks at 95 % or more``, of the trained model."""
    own = scores.summary.get("trained")
    if own is None:
        return "the trained model has played no episode"
    return (
        f"mean success {_percent(own.mean_rate)}, {own.mastered} of {own.tasks} "
        f"task{'' if own.tasks == 1 else 's'} at {_percent(MASTERED)} or more"
    )


def insert(text: str, block: str) -> str:
    """``text`` with ``block`` in place of what stands between the marks.

    Raises InvalidRequest unless each mark is there once, in this order.
    """
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise InvalidRequest(
            f"the file must hold the lines {BEGIN} and {END} once, in this order",
            hint="add them where the table shall stand",
        )
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{block}\n{END}{after}"


def _grid(scores: Scores) -> tuple[list[str], list[list[str]]]:
    """Head and rows as text, the last row being the means. The model's columns are left out when it
    has played nothing."""
    baselines = [player for player in BASELINES if player in scores.summary]
    head = ["task"]
    if "trained" in scores.summary:
        head += ["successes", "rate", "95 % interval", "turns", "median turn"]
    head += baselines
    rows = [_row(task, scores, baselines) for task in scores.tasks]
    means = {player: _percent(own.mean_rate) for player, own in scores.summary.items()}
    last = ["mean"]
    if "trained" in means:
        last += ["", means["trained"], "", "", ""]
    return head, [*rows, last + [means[player] for player in baselines]]


def _row(task: TaskScores, scores: Scores, baselines: list[PlayerName]) -> list[str]:
    row = [task.task]
    if "trained" in scores.summary:
        own = task.players.get("trained")
        row += _own_cells(own) if own else [""] * 5
    for player in baselines:
        other = task.players.get(player)
        row.append(f"{_percent(other.rate)} ({_interval(other)})" if other else "")
    return row


def _own_cells(score: Score) -> list[str]:
    median = score.median_turn_ms
    return [
        f"{score.successes}/{score.episodes}",
        _percent(score.rate),
        _interval(score),
        f"{score.mean_turns:.1f}",
        "" if median is None else f"{median:.0f} ms",
    ]


def _percent(rate: float) -> str:
    """One decimal where there is one: 94.6 % must not read as 95 %."""
    return f"{round(100 * rate, 1):g} %"


def _interval(score: Score) -> str:
    return f"{100 * score.low:.0f}–{100 * score.high:.0f} %"


def _paragraph(report: Report) -> str:
    conditions = report.conditions
    weights = (conditions.model_sha256 or "unknown")[:HASH_DIGITS]
    at = f", commit `{report.commit[:HASH_DIGITS]}`" if report.commit else ""
    seeds = f"seeds {report.seeds[0]} to {report.seeds[-1]}" if report.seeds else "no seeds"
    broken = report.scores.errors
    flaw = "" if report.complete else f" **Not complete** ({broken} broken off by errors)."
    return (
        f"{verdict(report.scores).capitalize()}.{flaw} Run `{report.scores.run}`: "
        f"`{report.command}`{at}, weights `{weights}`, {seeds} of each task. Success is a raw "
        f"reward of at least {SUCCESS:g}, intervals are Wilson's. Turns took as long as shown with "
        f"{report.concurrency} episode{'' if report.concurrency == 1 else 's'} at once on "
        f"{report.cpus} cores ({report.device})."
    )
