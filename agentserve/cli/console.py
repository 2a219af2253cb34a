"""How commands talk to people: progress and errors on stderr, results on stdout."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.markup import escape

from agentserve.core.errors import AgentServeError

T = TypeVar("T")

MAX_SHOWN = 200
"""Characters of a text that is not ours."""
PIPE_WIDTH = 120
"""Columns of a table that goes to a file or a pipe, which tell no width."""


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else PIPE_WIDTH
    return Console(stderr=stderr, soft_wrap=True, width=width)


out = _console(stderr=False)
err = _console(stderr=True)


def command_name() -> str:
    """How this command was called, so that what it suggests can be pasted."""
    called = sys.argv[0]
    if called.endswith(".py"):
        return f"{shlex.quote(sys.executable)} -m agentserve.cli"
    here = os.path.relpath(called) if os.sep in called else called
    # a way up through other folders would hold in this one only
    return shlex.quote(os.path.abspath(called) if here.startswith(os.pardir) else here)


def command(*words: str | Path) -> str:
    """One of our commands, as a shell takes it: quoted where that is needed, and no path in it is
    taken for an option."""
    shown = (
        f"./{word}" if isinstance(word, Path) and str(word)[0] == "-" else word for word in words
    )
    return " ".join([command_name(), *(shlex.quote(str(word)) for word in shown)])


def plain(text: str) -> str:
    """Text from a file or a page on one line, cut, with nothing in it that steers a terminal."""
    cut = text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"
    return "".join(character if character.isprintable() else "·" for character in cut)


def report_error(error: AgentServeError) -> None:
    err.print(f"[bold red]error[/] ({error.code}): {escape(error.message)}")
    if error.hint:
        err.print(f"[bold]hint[/]: {escape(error.hint)}")


def run_until_signal(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine; SIGINT and SIGTERM cancel it once, so that it can put its house in order.

    Raises KeyboardInterrupt after a cancelled coroutine has finished cleaning up.
    """

    async def _run() -> T:
        task = asyncio.ensure_future(main)
        loop = asyncio.get_running_loop()
        interrupted = False

        def interrupt() -> None:
            nonlocal interrupted
            if not interrupted:
                interrupted = True
                err.print("[dim]stopping…[/]")
                task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, interrupt)
        try:
            return await task
        except asyncio.CancelledError:
            if interrupted:
                raise KeyboardInterrupt from None
            raise

    return asyncio.run(_run())
