"""A whole agentserve on this machine: workers and a router as child processes.

    async with local_stack(StackOptions(workers=2), status=print) as stack:
        ... stack.router, stack.workers ...

Everything that was started is stopped at the end, in whatever way the block is left; a stack whose
own process is killed takes its children along (see child.py).
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from agentserve.client import RouterClient
from agentserve.core.errors import InvalidRequest, Unavailable

STOP_TIMEOUT_S = 20.0
POLL_S = 0.25
STATUS_S = 5.0


@dataclass(frozen=True)
class StackOptions:
    workers: int = 2
    model: str = "nano"
    device: str | None = None
    """None: cuda where there is a GPU, else cpu."""
    router_port: int = 0
    """0: any free port."""
    worker_arguments: tuple[str, ...] = ()
    """Further arguments of ``agentserve worker``."""
    programs: tuple[Path, ...] = ()
    data: Path | None = None
    """Folder of the router's data and all logs; None: a temporary one."""
    start_timeout_s: float = 600.0


@dataclass
class Child:
    """A child process, leader of its own process group, writing to a log file."""

    name: str
    arguments: list[str]
    process: asyncio.subprocess.Process
    log: Path

    @property
    def running(self) -> bool:
        return self.process.returncode is None

    def tail(self, lines: int = 15) -> str:
        text = self.log.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])


@dataclass
class Stack:
    """A running stack. ``children`` are ``router`` and ``worker-0`` … in the order of workers."""

    router: str
    workers: list[str]
    data: Path
    children: dict[str, Child] = field(default_factory=dict)

    async def start(self, name: str, arguments: list[str]) -> Child:
        log = self.data / "logs" / f"{name}.log"
        self.children[name] = await start_child(name, arguments, log)
        return self.children[name]

    async def stop(self, name: str) -> None:
        """Stop one part; ``restart`` brings it back on the same port."""
        await stop_child(self.children[name])

    async def restart(self, name: str) -> Child:
        await self.stop(name)
        return await self.start(name, self.children[name].arguments)

    async def close(self) -> None:
        await asyncio.gather(*(stop_child(part) for part in self.children.values()))


Status = Callable[[str], None]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def check_free(port: int) -> None:
    """Raises InvalidRequest when something listens on the port: its answers would pass for ours."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise InvalidRequest(
                f"port {port} is taken: {error.strerror}",
                hint="another agentserve may be running; stop it, or use it by --router",
            ) from error


async def start_child(name: str, arguments: list[str], log: Path) -> Child:
    """Start ``agentserve ARGUMENTS…``; its output goes to ``log``."""
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "agentserve.cli", *arguments]
    with log.open("ab") as sink:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "agentserve.cli.child",
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
    return Child(name, arguments, process, log)


async def stop_child(child: Child) -> None:
    """SIGTERM, then SIGKILL for what is left of its group after STOP_TIMEOUT_S."""
    if child.running:
        child.process.terminate()
        with suppress(TimeoutError):
            await asyncio.wait_for(child.process.wait(), STOP_TIMEOUT_S)
    with suppress(ProcessLookupError):
        os.killpg(child.process.pid, signal.SIGKILL)
    await child.process.wait()


@asynccontextmanager
async def local_stack(
    options: StackOptions, status: Status = lambda _: None
) -> AsyncIterator[Stack]:
    """Start the workers side by side and a router over them; yield when all are ready.

    Raises Unavailable, with the end of the log, when a part does not come up.
    """
    with ExitStack() as folders:
        data = options.data or Path(
            folders.enter_context(tempfile.TemporaryDirectory(prefix="agentserve-"))
        )
        ports = [free_port() for _ in range(options.workers)]
        stack = Stack(
            router=f"http://127.0.0.1:{options.router_port or free_port()}",
            workers=[f"http://127.0.0.1:{port}" for port in ports],
            data=data,
        )
        if options.router_port:
            check_free(options.router_port)
        workers = f"{options.workers} worker{'' if options.workers == 1 else 's'}"
        status(f"starting {workers} ({options.model}) and a router; SGLang takes about a minute")
        try:
            for index, port in enumerate(ports):
                await stack.start(f"worker-{index}", _worker_arguments(options, port))
            await stack.start("router", _router_arguments(options, stack))
            await until_ready(stack, options.start_timeout_s, status)
            yield stack
        finally:
            # shielded: an impatient second Ctrl-C must not leave a worker behind
            await asyncio.shield(asyncio.ensure_future(stack.close()))


@asynccontextmanager
async def local_worker(
    options: StackOptions, status: Status = lambda _: None
) -> AsyncIterator[str]:
    """Start one worker without a router; its URL, when it is ready.

    Raises Unavailable, with the end of the log, when it does not come up.
    """
    with tempfile.TemporaryDirectory(prefix="agentserve-") as data:
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        status(f"starting a worker ({options.model}); SGLang takes about a minute")
        worker = await start_child(
            "worker", _worker_arguments(options, port), Path(data) / "worker.log"
        )
        try:
            async with asyncio.timeout(options.start_timeout_s), httpx.AsyncClient() as http:
                while not await _answers(http, f"{url}/agentserve"):
                    if not worker.running:
                        raise Unavailable(
                            f"the worker ended with exit code {worker.process.returncode} while "
                            f"starting; the end of its log:\n{worker.tail()}"
                        )
                    await asyncio.sleep(POLL_S)
            yield url
        except TimeoutError:
            raise Unavailable(
                f"the worker was not ready after {options.start_timeout_s:.0f} s; the end of its "
                f"log:\n{worker.tail()}"
            ) from None
        finally:
            await asyncio.shield(asyncio.ensure_future(stop_child(worker)))


async def _answers(http: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await http.get(url)).is_success
    except httpx.HTTPError:
        return False


def _worker_arguments(options: StackOptions, port: int) -> list[str]:
    device = ["--device", options.device] if options.device else []
    model = ["--model", options.model, "--port", str(port)]
    return ["worker", *model, *device, *options.worker_arguments]


def _router_arguments(options: StackOptions, stack: Stack) -> list[str]:
    port = stack.router.rpartition(":")[2]
    workers = [part for url in stack.workers for part in ("--worker", url)]
    programs = [part for path in options.programs for part in ("--programs", str(path))]
    return ["serve", "--port", port, "--data", str(stack.data / "router"), *workers, *programs]


async def until_ready(
    stack: Stack, timeout_s: float = 600.0, status: Status = lambda _: None
) -> None:
    """Wait until the router sees every worker of the stack ready."""
    begun, told = time.monotonic(), 0.0
    wanted = len(stack.workers)
    async with RouterClient(stack.router) as router:
        while True:
            for part in stack.children.values():
                if not part.running:
                    raise Unavailable(
                        f"{part.name} ended with exit code {part.process.returncode} while "
                        f"starting; the end of its log:\n{part.tail()}",
                        hint=f"the whole log was {part.log}",
                    )
            ready, detail = await _readiness(router)
            if ready >= wanted:
                return
            seconds = time.monotonic() - begun
            if seconds > timeout_s:
                raise Unavailable(
                    f"{ready} of {wanted} workers were ready after {timeout_s:.0f} s ({detail})",
                    hint=f"see the logs in {stack.data / 'logs'}",
                )
            if seconds >= told + STATUS_S:
                told = seconds
                status(f"{ready} of {wanted} workers ready after {seconds:.0f} s ({detail})")
            await asyncio.sleep(POLL_S)


async def _readiness(router: RouterClient) -> tuple[int, str]:
    try:
        health = await router.ready()
    except (Unavailable, httpx.HTTPError):
        return 0, "the router is starting"
    if not health.programs:
        return 0, "the program host is starting"
    return health.workers_ready, "SGLang is loading"
