"""``agentserve top``: its figures, its 80 columns, and the command against a running router."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import signal
import struct
import sys
import termios
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import httpx
import pytest
from rich.console import Console
from router.own_process import free_port
from router.redis_server import RedisServer
from router.rig import Rig, eventually, new_session, picture, running_rig

from agentserve.cli.top_figures import Figures, Interval, Reading, Samples, figures, quantile
from agentserve.cli.top_view import view
from agentserve.cli.top_watch import Watch
from agentserve.client import RouterClient
from agentserve.core.config import RouterConfig
from agentserve.core.workers import Drain, Worker, WorkerState
from agentserve.router.app import create_app
from agentserve.testing.host import scripted_host
from agentserve.testing.server import LoopbackServer
from agentserve.testing.worker import FakeWorker

COMMAND = [sys.executable, "-m", "agentserve.cli", "top"]
INF = float("inf")


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


# figures


@pytest.mark.parametrize(
    ("share", "buckets", "expected"),
    [
        (0.5, [], None),
        (0.5, [[(1.0, 0), (INF, 0)]], None),
        (0.5, [[(1.0, 10), (INF, 10)]], 0.5),
        (0.5, [[(1.0, 0), (2.0, 4), (INF, 4)]], 1.5),
        (0.75, [[(1.0, 2), (2.0, 4), (INF, 4)]], 1.5),
        (0.99, [[(1.0, 1), (2.0, 1), (INF, 9)]], 2.0),
        (0.5, [[(1.0, 0), (2.0, 1), (INF, 1)], [(1.0, 3), (2.0, 3), (INF, 3)]], 2 / 3),
    ],
)
def test_quantiles_of_buckets(share, buckets, expected):
    assert quantile(share, buckets) == (None if expected is None else pytest.approx(expected))


RUNNING = 'agentserve_running_turns{kind="turns"}'


def reading(at: float, router: str = "r-1", url: str = "http://one", **values: float) -> Reading:
    lines = [f'agentserve_router_info{{router="{router}",version="1"}} 1']
    lines += [f"{name} {value}" for name, value in values.items()]
    return Reading(url, at, Samples("\n".join(lines) + "\n"))


def test_rates_are_of_the_interval_and_add_up():
    before = reading(10, agentserve_turns_total=100, **{RUNNING: 1})
    after = reading(12, agentserve_turns_total=107, **{RUNNING: 2})
    other = reading(11, "r-2", "http://two", agentserve_turns_total=5, **{RUNNING: 3})
    shown = figures([after, other], [Interval(before, after)], [], {})
    assert (shown.turns_per_s, shown.running) == (3.5, 5)
    assert [(one.id, one.turns_per_s) for one in shown.routers] == [("r-1", 3.5), ("r-2", None)]


def full_figures() -> Figures:
    """The longest that there is to show."""
    drain = Drain(since=datetime.now().astimezone(), left=12_345, moved=67_890)
    workers = [
        Worker(id=f"w-{number:010x}", url="http://a-long-name.of-a-worker:8301", state=state,
               boot_id="b", sessions=12_345, resting=number == 1, drain=drain,
               held_tokens=60_000, report=FakeWorker(context_length=25_000).report())
        for number, state in enumerate(WorkerState)
    ]  # fmt: skip
    names = {
        "agentserve_turns_total": 5000,
        "agentserve_http_requests_total": 200,
        'agentserve_event_loop_lag_seconds_bucket{le="0.01"}': 1,
        'agentserve_event_loop_lag_seconds_bucket{le="+Inf"}': 1,
        "process_resident_memory_bytes": 10**10,
    }
    url = "http://a-very-long-name-of-a-router.in-some-cluster.example:8300"
    before = reading(0, "r-0123456789abcdef", url, agentserve_turns_total=0)
    after = reading(1, "r-0123456789abcdef", url, **names)
    shown = figures([after], [Interval(before, after)], workers, {})
    losses = {"evicted": 1_000, "moved": 2, "prefix_moved": 3, "restarted": 4}
    sessions = {"idle": 10_000, "running": 100, "released": 10**6, "expired": 10**4}
    return Figures(**{**vars(shown), "losses": losses, "new_losses": losses, "sessions": sessions,
                      "p50_s": 0.4, "p95_s": 12.3, "cached_share": 0.81})  # fmt: skip


def test_it_fits_80_columns():
    console = Console(width=80, record=True, file=open(os.devnull, "w"))
    shown = full_figures()
    trouble = {"http://down": "cannot reach the router at http://down:8300: refused [x]"}
    console.print(view(Figures(**{**vars(shown), "troubles": trouble}), 2, datetime.now(UTC)))
    console.file.close()
    text = console.export_text()
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    rows = [line for line in lines if line.startswith("w-")]
    assert len(rows) == len(WorkerState)
    assert "rests" in rows[1] and "██████░░░░  60%" in rows[1] and "67,890 of 80,235" in rows[1]
    (router,) = [line for line in lines if line.startswith("r-0")]
    assert router.split()[2:] == ["0", "0", "5,000.0", "200.0", "10", "ms", "10,000"]
    assert "turns     5,000.0/s  p50 400 ms  p95 12.3 s" in text
    assert "refused [x]; trying again" in text


# routers


async def test_what_happens_between_two_looks_is_shown(tmp_path):
    async with running_rig(tmp_path) as rig, RouterClient(rig.server.url) as client:
        watch = Watch([client])
        first = await watch.look()
        assert (first.turns_per_s, first.p50_s, first.cached_share) == (None, None, None)
        session = await rig.client.create_session(new_session())
        results = [await rig.client.turn(session.id, picture()) for _ in range(3)]
        shown = await watch.look()
        assert shown.turns_per_s > 0 and 0 < shown.p50_s <= shown.p95_s
        prompt = sum(result.usage.prompt_tokens for result in results)
        cached = sum(result.usage.cached_tokens for result in results)
        by_id = {each.worker.id: each for each in shown.workers}
        assert by_id[session.pin.worker_id].cached_share == pytest.approx(cached / prompt)
        assert shown.cached_share == pytest.approx(cached / prompt)
        assert shown.sessions["idle"] == 1
        quiet = await watch.look()
        assert (quiet.turns_per_s, quiet.p50_s) == (0, None)


async def test_a_proxy_that_takes_turns_hides_no_router(tmp_path, redis_server: RedisServer):
    async with FakeWorker() as worker:
        shared = {"store": redis_server.url, "blobs": tmp_path / "blobs"}
        async with (
            running_rig(tmp_path / "one", [worker], **shared) as one,
            running_rig(tmp_path / "two", [worker], **shared) as two,
            RouterClient("http://proxy", transport=_InTurns(one, two)) as client,
        ):
            watch = Watch([client])
            session = await one.client.create_session(new_session())
            for _ in range(4):
                shown = await watch.look()
            ids = {rig.services.replica.id for rig in (one, two)}
            assert {router.id for router in shown.routers} == ids
            assert shown.sessions["idle"] == 1  # not two
            await one.client.turn(session.id, picture())
            rates = [(await watch.look()).turns_per_s for _ in range(2)]
            assert max(rates) > 0


class _InTurns(httpx.AsyncBaseTransport):
    """A proxy: one whole look to each router."""

    def __init__(self, *rigs: Rig) -> None:
        self._urls = [rig.server.url for rig in rigs]
        self._http = httpx.AsyncHTTPTransport()
        self._count = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = httpx.URL(self._urls[self._count // 2 % len(self._urls)])
        self._count += 1
        request.url = request.url.copy_with(host=url.host, port=url.port)
        return await self._http.handle_async_request(request)

    async def aclose(self) -> None:
        await self._http.aclose()


async def test_a_router_without_its_store_still_shows_itself(tmp_path, redis_server: RedisServer):
    async with running_rig(tmp_path, store=redis_server.url) as rig:
        async with RouterClient(rig.server.url) as client:
            redis_server.kill()
            try:
                shown = await Watch([client]).look()
            finally:
                redis_server.start()
            assert [router.url for router in shown.routers] == [rig.server.url]
            assert (shown.sessions, shown.workers) == ({}, [])
            assert "Redis store" in shown.troubles[rig.server.url]


# the command


@asynccontextmanager
async def running(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*COMMAND, *arguments, stdout=pipe, stderr=pipe)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_once_as_json(tmp_path):
    async with running_rig(tmp_path) as rig:
        await rig.client.create_session(new_session())
        options = ("--router", rig.server.url, "--once", "--json", "--interval", "0.1")
        async with running(*options) as process:
            out, err = await process.communicate()
        assert (process.returncode, err) == (0, b"")
        told = json.loads(out)
        assert told["sessions"]["idle"] == 1
        assert [router["id"] for router in told["routers"]] == [rig.services.replica.id]
        assert {worker["state"] for worker in told["workers"]} == {"ready"}
        assert {worker["capacity_tokens"] for worker in told["workers"]} == {4 * 32_768}
        assert told["turns_per_s"] == 0


async def test_once_without_a_router_is_an_error():
    async with running("--router", "http://127.0.0.1:1", "--once") as process:
        out, err = await process.communicate()
    assert (process.returncode, out) == (1, b"")
    assert b"cannot reach the router at http://127.0.0.1:1" in err
    assert b"--router" in err


async def test_a_router_that_comes_late_is_found_and_ctrl_c_ends_it(tmp_path):
    port = free_port()
    async with running("--router", f"http://127.0.0.1:{port}", "--interval", "0.1") as process:

        async def until(words: bytes) -> None:
            while words not in await asyncio.wait_for(process.stdout.readline(), 60):
                pass

        await until(b"trying again")
        config = RouterConfig(data=tmp_path)
        server = LoopbackServer(create_app(config, host_command=scripted_host), port=port)
        async with server:
            await until(b"sessions")
        await until(b"trying again")
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()
    assert (process.returncode, err) == (0, b"")


async def test_a_terminal_is_left_as_it_was(tmp_path):
    async with running_rig(tmp_path) as rig:
        terminal, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        process = await asyncio.create_subprocess_exec(
            *COMMAND, "--router", rig.server.url, "--interval", "0.1",
            stdin=inner, stdout=inner, stderr=inner, start_new_session=True,
            env=os.environ | {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"},
        )  # fmt: skip
        os.close(inner)
        os.set_blocking(terminal, False)
        written = b""

        async def text() -> bytes:
            nonlocal written
            try:
                written += os.read(terminal, 1 << 16)
            except BlockingIOError:
                pass
            except OSError:  # its other end is closed
                await process.wait()
            return written

        try:
            await eventually(text, lambda found: found.count(b"agentserve top") >= 3, 60)
            process.send_signal(signal.SIGINT)
            await eventually(text, lambda _: process.returncode is not None)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            os.close(terminal)
        assert process.returncode == 0
        assert b"Traceback" not in written
        # the alternate screen and the cursor: taken once, given back once
        assert written.count(b"\x1b[?1049h") == written.count(b"\x1b[?1049l") == 1
        assert written.rindex(b"\x1b[?25h") > written.rindex(b"\x1b[?25l")
        # no flicker: frames are written over each other, the screen is not emptied between them
        assert written.count(b"\x1b[2J") <= 1
