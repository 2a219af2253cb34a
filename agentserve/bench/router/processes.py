"""Servers as processes of their own, so that they can be killed, and their CPU time be read."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Self

from agentserve.core.errors import Unavailable

START_TIMEOUT_S = 60.0
_POLL_S = 0.05
_LAST_LINES = 5


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def module(name: str, *arguments: str) -> list[str]:
    """The command line of one of our modules."""
    return [sys.executable, "-m", name, *arguments]


async def listens(port: int) -> bool:
    """Whether something takes connections there."""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


class Server:
    """A command that listens on ``port``. ``start`` after ``kill`` is its next life, on the same
    port. ``async with`` kills it at the end; it dies with this process as well."""

    def __init__(
        self,
        command: Sequence[str],
        port: int,
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """``environment`` is added to this process's."""
        self.port = port
        self._command = list(command)
        self._log = log
        self._environment = environment or {}
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Does not wait until it listens: see ``until``."""
        with self._log.open("ab") as sink:
            self._process = await asyncio.create_subprocess_exec(
                *module("agentserve.cli.child", *self._command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
                env=os.environ | self._environment,
            )

    async def kill(self) -> None:
        """By SIGKILL, with all that it started."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()
            self._process = None

    async def until(self, ready: Callable[[], Awaitable[bool]]) -> None:
        """Wait until it is ready. Raises Unavailable when it ends before, or takes too long."""
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                while not await ready():
                    if not self.running:
                        raise Unavailable(f"{self._command[0]} ended", hint=self._tail())
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            raise Unavailable(
                f"{self._command[0]} was not ready after {START_TIMEOUT_S:g} s", hint=self._tail()
            ) from None

    def cpu_s(self) -> float | None:
        """CPU time that the process's threads took so far, without its children. None where there
        is no /proc."""
        assert self._process is not None
        tasks = Path(f"/proc/{self._process.pid}/task")
        if not tasks.is_dir():
            return None
        ran = 0
        for task in tasks.iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                ran += int((task / "schedstat").read_text().split()[0])
        return ran / 1e9

    def _tail(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-_LAST_LINES:])

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill()


class Group:
    """Servers that answer together on ``port``, and the one that they need. ``async with`` starts
    and kills them; it waits for none but that one."""

    def __init__(self, port: int, needed: Server, members: Sequence[Server]) -> None:
        self.port = port
        self._needed = needed
        self._members = members

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cpu_s(self) -> float | None:
        """Of all of them: see Server.cpu_s."""
        taken = [server.cpu_s() for server in (self._needed, *self._members)]
        return None if None in taken else sum(filter(None, taken))

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as started:
            await started.enter_async_context(self._needed)
            await self._needed.until(lambda: listens(self._needed.port))
            for member in self._members:
                await started.enter_async_context(member)
            self._started = started.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._started.aclose()
