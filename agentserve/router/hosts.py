"""Program hosts: subprocesses that run programs' turns. Started, watched and restarted here.

A host holds nothing between turns, so its death costs at most the turns that run on it, and these
are told apart by HostLost: the caller may ask again.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from agentserve.core import tracing
from agentserve.core.config import KEEP_CONNECTION_S, LogConfig, RouterConfig
from agentserve.core.deadlines import Deadline
from agentserve.core.errors import (
    AgentServeError,
    HostLost,
    TurnTimeout,
    UnknownProgram,
    from_body,
)
from agentserve.core.hosting import HostAnswer, HostTurn, HostWarming, ProgramList
from agentserve.core.sessions import CallUsage
from agentserve.router.metrics import Metrics
from agentserve.router.tasks import end

log = logging.getLogger(__name__)
START_TIMEOUT_S = 120.0
"""A host imports SGLang's frontend, which takes seconds, more on a busy machine."""
GRACE_S = 10.0
"""A host answers within the turn's own limit; one that is silent this much longer hangs."""
STOP_TIMEOUT_S = 5.0
ALIVE_TIMEOUT_S = 5.0
"""A host that lives says so at once, however many turns it runs."""
MAX_BACKOFF_S = 10.0
_POLL_S = 0.05


@dataclass(frozen=True)
class HostSpec:
    """What a host process is started with."""

    socket: Path
    blobs: Path
    threads: int
    programs: tuple[Path, ...]
    log: LogConfig = LogConfig()
    trace: bool = False


HostCommand = Callable[[HostSpec], list[str]]


def program_host(spec: HostSpec) -> list[str]:
    """The command line of the program host."""
    return host_command_line("agentserve.lang.host", spec)


def host_command_line(module: str, spec: HostSpec) -> list[str]:
    """The arguments every host takes."""
    return [
        *(sys.executable, "-m", module),
        *("--socket", str(spec.socket), "--blobs", str(spec.blobs)),
        *("--threads", str(spec.threads)),
        *spec.log.arguments(),
        *(["--trace"] if spec.trace else []),
        *("--programs", *(str(path) for path in spec.programs)),
    ]


@dataclass
class _Host:
    """One host slot; its process is replaced when it dies."""

    spec: HostSpec
    running: int = 0
    process: asyncio.subprocess.Process | None = None
    client: httpx.AsyncClient | None = None
    """Set while the host is ready."""
    keeper: asyncio.Task[None] | None = field(default=None)
    suspecting: asyncio.Lock = field(default_factory=asyncio.Lock)


class HostPool:
    """All program hosts of a router."""

    def __init__(
        self, config: RouterConfig, blobs: Path, command: HostCommand, metrics: Metrics
    ) -> None:
        self._command = command
        self._metrics = metrics
        self._changed = asyncio.Condition()
        self._programs: ProgramList | None = None
        # Not below the data folder: the path of a Unix socket is limited to about 100 bytes.
        self._sockets = Path(tempfile.mkdtemp(prefix="agentserve-"))
        self._hosts = [
            _Host(
                HostSpec(
                    socket=self._sockets / f"host-{number}",
                    blobs=blobs,
                    threads=config.host_threads,
                    programs=config.programs,
                    log=config.log,
                    trace=config.trace,
                )
            )
            for number in range(config.hosts)
        ]

    async def start(self) -> None:
        """Start the hosts without waiting for them."""
        for host in self._hosts:
            host.keeper = asyncio.create_task(self._keep(host))

    async def stop(self) -> None:
        keepers = [host.keeper for host in self._hosts if host.keeper is not None]
        await end(keepers, 2 * STOP_TIMEOUT_S)
        await asyncio.to_thread(shutil.rmtree, self._sockets, ignore_errors=True)

    # what callers ask

    @property
    def ready(self) -> int:
        """Hosts that take turns now."""
        return sum(host.client is not None for host in self._hosts)

    @property
    def pids(self) -> list[int]:
        """Process ids of the hosts that live."""
        return [host.process.pid for host in self._hosts if host.process is not None]

    @property
    def known_programs(self) -> ProgramList:
        """What the hosts reported last; empty before the first one was ready."""
        return self._programs or ProgramList(programs=[])

    async def programs(self) -> ProgramList:
        """The registered programs; waits for the first host. Raises HostLost when none starts."""
        if self._programs is None:
            await self._wait(lambda: self._programs is not None, START_TIMEOUT_S, _no_host)
        return self.known_programs

    def program_sha256(self, name: str) -> str:
        """Of a registered program's source, as the hosts reported it last; empty of one that is
        not registered any more."""
        return next((p.sha256 for p in self.known_programs.programs if p.name == name), "")

    async def check_program(self, name: str) -> None:
        """Raises UnknownProgram, with the list of known ones."""
        listed = await self.programs()
        known = sorted(program.name for program in listed.programs)
        if name not in known:
            broken = [why for file, why in listed.broken.items() if Path(file).stem == name]
            registered = f"registered: {', '.join(known) or 'none'}"
            raise UnknownProgram(
                f"there is no program {name!r}",
                hint=f"its file does not load: {broken[0]}; {registered}" if broken else registered,
                details={"programs": known},
            )

    async def turn(self, turn: HostTurn) -> HostAnswer:
        """Run a turn on the host with the fewest running.

        Raises what the host answered, HostLost when it died, TurnTimeout when the host did not keep
        the turn's own limit, or none became free in it. No more turns are begun than the hosts have
        threads for: what waits here is what a host that is being started anew, or a warming, has
        left without one.
        """
        return HostAnswer.model_validate_json(await self._ask("/turns", turn))

    async def warm(self, warming: HostWarming) -> CallUsage:
        """Have a worker compute a prefix; raises like ``turn``."""
        with tracing.span("warm", session_id=warming.session_id):
            return CallUsage.model_validate_json(await self._ask("/warmings", warming))

    # plumbing

    async def _ask(self, path: str, ask: HostTurn | HostWarming) -> bytes:
        """The body of the host's answer."""
        deadline = Deadline(ask.timeout_s)
        async with self._free_host(deadline) as host:
            client = host.client
            assert client is not None
            ask = ask.model_copy(update={"timeout_s": deadline.remaining()})
            try:
                answer = await client.post(
                    path,
                    content=ask.model_dump_json(),
                    headers={"content-type": "application/json", **tracing.headers()},
                    timeout=httpx.Timeout(ask.timeout_s + GRACE_S, connect=5.0),
                )
            except httpx.TimeoutException as error:
                log.warning("a program host hangs, it is killed")
                _signal(host.process, signal.SIGKILL)
                raise TurnTimeout(
                    f"the program host did not answer within {ask.timeout_s + GRACE_S:g} s",
                    hint="the host was started anew; ask again",
                ) from error
            except httpx.TransportError as error:
                await self._suspect(host, client)
                raise HostLost(
                    "the connection to the program host was lost during the turn",
                    hint="ask again with the same epoch",
                    retry_after=1,
                ) from error
        if answer.status_code != 200:
            raise _error_of(answer)
        return answer.content

    async def _suspect(self, host: _Host, client: httpx.AsyncClient) -> None:
        """A connection to a host broke. One that lives on may have closed it for being idle, and
        stays; any other is ended, so that its keeper starts it anew."""
        async with host.suspecting:  # all its turns come here at once
            if host.client is not client:
                return  # one of them has seen to it, or its keeper
            try:
                if (await client.get("/programs", timeout=ALIVE_TIMEOUT_S)).status_code == 200:
                    return
            except (httpx.TransportError, RuntimeError):  # the latter: its keeper has closed it
                pass
            if host.client is client:
                host.client = None  # before its keeper notices, so that nobody else takes it
                await client.aclose()
                _signal(host.process, signal.SIGKILL)

    @asynccontextmanager
    async def _free_host(self, deadline: Deadline) -> AsyncIterator[_Host]:
        def free() -> list[_Host]:
            return [h for h in self._hosts if h.client is not None and h.running < h.spec.threads]

        while not (candidates := free()):
            timeout_s = min(deadline.remaining(), START_TIMEOUT_S)
            await self._wait(free, timeout_s, lambda: self._none_free(deadline))
        host = min(candidates, key=lambda h: h.running)
        host.running += 1
        try:
            yield host
        finally:
            host.running -= 1
            await self._notify()

    async def _wait(
        self,
        condition: Callable[[], object],
        timeout_s: float,
        failure: Callable[[], AgentServeError],
    ) -> None:
        try:
            async with asyncio.timeout(timeout_s), self._changed:
                await self._changed.wait_for(condition)
        except TimeoutError:
            raise failure() from None

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _none_free(self, deadline: Deadline) -> AgentServeError:
        return deadline.exceeded() if self.ready else _no_host()

    async def _keep(self, host: _Host) -> None:
        """Keep one host running until cancelled."""
        backoff = 0.0
        while True:
            host.spec.socket.unlink(missing_ok=True)
            # Its standard input stays open as long as we live: its end tells the host to leave.
            # Its own session keeps the terminal's Ctrl-C from it: we end it, after its turns.
            host.process = await asyncio.create_subprocess_exec(
                *self._command(host.spec),
                stdin=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
            try:
                if await self._await_ready(host):
                    backoff = 0.0
                await host.process.wait()
                log.warning("a program host ended with %s", host.process.returncode)
            finally:
                if host.client is not None:
                    await host.client.aclose()
                    host.client = None
                await _end(host.process)
                host.process = None
            self._metrics.host_restarts.inc()
            await asyncio.sleep(backoff)
            backoff = min(MAX_BACKOFF_S, backoff * 2 or 0.1)

    async def _await_ready(self, host: _Host) -> bool:
        """Whether the new process became ready; one that takes too long is killed."""
        assert host.process is not None
        limits = httpx.Limits(max_connections=None, keepalive_expiry=KEEP_CONNECTION_S)
        transport = httpx.AsyncHTTPTransport(uds=str(host.spec.socket), limits=limits)
        client = httpx.AsyncClient(transport=transport, base_url="http://host")
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                while host.process.returncode is None:
                    try:
                        answer = await client.get("/programs")
                    except httpx.TransportError:
                        await asyncio.sleep(_POLL_S)
                        continue
                    self._programs = ProgramList.model_validate_json(answer.content)
                    host.client = client
                    await self._notify()
                    return True
        except TimeoutError:
            log.warning("a program host did not start within %s s", START_TIMEOUT_S)
            _signal(host.process, signal.SIGKILL)
        finally:
            if host.client is not client:
                await client.aclose()
        return False


def _no_host() -> AgentServeError:
    return HostLost(
        "no program host is running",
        hint="the router's log says why it does not start",
        retry_after=5,
    )


def _error_of(answer: httpx.Response) -> AgentServeError:
    try:
        body = answer.json()
    except ValueError:
        body = {}
    body.setdefault("message", f"the program host answered {answer.status_code}")
    return from_body(body)


def _signal(process: asyncio.subprocess.Process | None, number: int) -> None:
    if process is not None and process.returncode is None:
        process.send_signal(number)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ask a process to leave, then make it."""
    _signal(process, signal.SIGTERM)
    try:
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await process.wait()
    except TimeoutError:
        _signal(process, signal.SIGKILL)
        await process.wait()
    if process.stdin is not None:
        process.stdin.close()
