"""Progress bars of long work."""

from __future__ import annotations

import threading
from collections.abc import Callable

from agentserve.cli.console import err


class Stage:
    """A progress bar, and the way to end a measurement that runs in a thread."""

    def __init__(self) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self._bar = Progress(
            *columns, TimeElapsedColumn(), console=err, disable=not err.is_terminal
        )
        self._stopped = threading.Event()

    def __enter__(self) -> Stage:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()  # a thread cannot be cancelled: it ends with its turn
        self._bar.stop()

    def say(self, text: str) -> None:
        """A line above the bars."""
        self._bar.console.print(text, style="dim")

    def task(self, name: str, total: int) -> Callable[[], None]:
        """Begin a bar. What is returned moves it by one, from any thread, and raises
        KeyboardInterrupt once the stage is left."""
        task = self._bar.add_task(name, total=total)

        def moved() -> None:
            if self._stopped.is_set():
                raise KeyboardInterrupt
            self._bar.advance(task)

        return moved
