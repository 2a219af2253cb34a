"""What the demo shows while it works: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from agentserve.cli.narrate import end_line, step_line
from agentserve.core.runs import RunSummary, Step
from agentserve.core.sessions import Session


@dataclass
class Row:
    """One task of the demo, filled as it runs."""

    name: str
    state: str = "waiting"
    success: bool | None = None
    turns: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    screen_tokens: int = 0
    """Of the whole screens, as if each turn had sent all of it."""
    sent_tokens: int = 0
    """Of what of the screens was sent."""
    turn_s: list[float] = field(default_factory=list)

    @property
    def median_turn_s(self) -> float | None:
        return statistics.median(self.turn_s) if self.turn_s else None

    def cells(self) -> list[str]:
        success = {None: "", True: "[green]yes[/]", False: "[red]no[/]"}[self.success]
        median = self.median_turn_s
        share = (
            f" ({100 * self.cached_tokens // self.prompt_tokens}%)" if self.prompt_tokens else ""
        )
        return [
            self.name,
            success,
            str(self.turns),
            str(self.prompt_tokens),
            f"{self.cached_tokens}{share}",
            f"{self.sent_tokens} of {self.screen_tokens}" if self.screen_tokens else "",
            "" if median is None else f"{median:.2f} s",
            self.state,
        ]


class DemoView:
    """Shows rows and a status line on ``console`` while it is entered."""

    def __init__(self, console: Console, names: list[str]) -> None:
        self.rows = {name: Row(name) for name in names}
        self._console = console
        self._spinner = Spinner("dots", "")
        self._live = Live(
            self, console=console, refresh_per_second=8, transient=True, auto_refresh=True
        )

    def __rich__(self) -> Group:
        return Group(self.table(), self._spinner)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def status(self, text: str) -> None:
        if self._console.is_terminal:
            self._spinner.update(text=Text.from_markup(text))
        else:
            self._console.print(text)

    def table(self) -> Table:
        table = Table(title="agentserve demo", title_justify="left")
        table.add_column("task", no_wrap=True)
        table.add_column("success")
        for name in (
            "turns",
            "prompt tokens",
            "cached tokens",
            "screen tokens sent",
            "median turn",
        ):
            table.add_column(name, justify="right")
        table.add_column("ended")
        for row in self.rows.values():
            table.add_row(*row.cells())
        return table

    def observer(self, name: str) -> DemoRun:
        return DemoRun(self, self.rows[name])


class DemoRun:
    """A RunObserver that fills one row."""

    def __init__(self, view: DemoView, row: Row) -> None:
        self._view = view
        self._row = row

    async def started(self, session: Session, url: str) -> None:
        self._row.state = "running"
        self._view.status(f"{self._row.name}: {session.id}")

    async def screenshot(self, index: int, image: bytes) -> None:
        pass

    async def step(self, step: Step) -> None:
        usage = step.result.usage
        self._row.turns += 1
        self._row.prompt_tokens += usage.prompt_tokens
        self._row.cached_tokens += usage.cached_tokens
        self._row.screen_tokens += usage.screen_tokens
        self._row.sent_tokens += usage.sent_tokens
        self._row.turn_s.append(step.result.timings.total_ms / 1000)
        self._view.status(f"{self._row.name}: {step_line(step)}")

    async def ended(self, summary: RunSummary) -> None:
        self._row.state = summary.end
        self._row.success = summary.success
        self._view.status(f"{self._row.name}: {end_line(summary)}")
