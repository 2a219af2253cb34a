"""Routers in processes of their own, behind one port that they share."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import trustme
import uvloop

from agentserve.client import RouterClient
from agentserve.core.config import RouterConfig
from agentserve.core.errors import InvalidRequest, Unavailable
from agentserve.router.server import Tls, run_router
from agentserve.router.shared_port import SharedPort, bind_shared
from agentserve.testing.worker import FakeWorker

from .own_process import free_port
from .redis_server import RedisServer
from .rig import eventually, new_session, picture

SERVE = """
import sys
from pathlib import Path
from agentserve.core.config import RouterConfig
from agentserve.router import run_router
from agentserve.testing.host import scripted_host
folder, name, store, shared, worker = sys.argv[1:]
config = RouterConfig(
    data=Path(folder) / name, blobs=Path(folder) / "blobs", store=store, shared_port=int(shared),
    workers=(worker,), health_interval_s=0.1,
)
run_router(config, port=0, host_command=scripted_host)
"""


@dataclass
class Routers:
    url: str
    """The one that they share."""
    own: list[str]
    processes: list[asyncio.subprocess.Process]
    http: httpx.AsyncClient
    """Makes a connection for each request."""

    async def who(self, url: str | None = None) -> str:
        """Which router a new connection gets to, by default one to the port that they share."""
        text = (await self.http.get(f"{url or self.url}/metrics")).text
        return re.search(r'agentserve_router_info{router="([^"]+)"', text)[1]

    async def ask(self, **fields: object) -> httpx.Response:
        """By the pass-through."""
        return await self.http.post(f"{self.url}/generate", json={"text": "t", **fields})


@asynccontextmanager
async def sharing(folder: Path, redis: RedisServer, worker: FakeWorker) -> AsyncIterator[Routers]:
    """Two routers that share a port and are ready."""
    port = free_port()
    limits = httpx.Limits(max_keepalive_connections=0)
    http = httpx.AsyncClient(limits=limits, timeout=60, trust_env=False)
    routers = Routers(f"http://127.0.0.1:{port}", [], [], http)
    try:
        for name in ("one", "two"):
            arguments = [str(folder), name, redis.url, str(port), worker.url]
            routers.processes.append(
                await asyncio.create_subprocess_exec(
                    *(sys.executable, "-c", SERVE, *arguments), stdout=asyncio.subprocess.PIPE
                )
            )
        for process in routers.processes:
            line = (await asyncio.wait_for(process.stdout.readline(), 60)).decode()
            assert line.startswith("agentserve router listening on http://127.0.0.1:")
            *_, own, shared = re.findall(r"http://\S+", line)
            assert shared == routers.url != own
            routers.own.append(own)
        for own in routers.own:
            async with RouterClient(own) as client:
                await eventually(client.ready, lambda health: health.status == "ok", timeout_s=60)
        yield routers
    finally:
        await http.aclose()
        for process in routers.processes:
            if process.returncode is None:
                process.kill()
            await process.wait()


@pytest.fixture
async def worker() -> AsyncIterator[FakeWorker]:
    async with FakeWorker() as fake:
        yield fake


async def test_connections_are_spread_and_sessions_are_everybodys(tmp_path, redis_server, worker):
    async with sharing(tmp_path, redis_server, worker) as routers, AsyncExitStack() as stack:
        ids = [await routers.who(own) for own in routers.own]
        assert len(set(ids)) == 2
        reached = await asyncio.gather(*(routers.who() for _ in range(40)))
        assert set(reached) == set(ids)
        urls = (*routers.own, routers.url)
        clients = [await stack.enter_async_context(RouterClient(url)) for url in urls]
        for maker in clients:
            session = await maker.create_session(new_session())
            turns = [await client.turn(session.id, picture()) for client in clients]
            assert [result.turn for result in turns] == [0, 1, 2]
        for process in routers.processes:
            process.terminate()
        for process in routers.processes:
            assert await asyncio.wait_for(process.wait(), 30) == 0


async def test_sigterm_loses_no_request(tmp_path, redis_server, worker):
    async with sharing(tmp_path, redis_server, worker) as routers:
        ending, staying = routers.processes
        survivor = await routers.who(routers.own[1])
        worker.pace_s = 1.0
        streams = [asyncio.create_task(routers.ask(stream=True)) for _ in range(20)]
        await eventually(lambda: asyncio.sleep(0, len(worker.requests)), lambda n: n == 20)
        asked: list[asyncio.Task[httpx.Response]] = []
        ending.terminate()
        while ending.returncode is None:
            asked.append(asyncio.create_task(routers.ask()))
            await asyncio.sleep(0.02)
        assert ending.returncode == 0
        assert staying.returncode is None
        answers = await asyncio.gather(*streams, *asked)
        assert {answer.status_code for answer in answers} == {200}
        for answer in answers[: len(streams)]:
            assert answer.text.endswith("data: [DONE]\n\n")
        reached = await asyncio.gather(*(routers.who() for _ in range(20)))
        assert set(reached) == {survivor}


async def test_the_first_request_of_a_connection_is_waited_for(tmp_path, redis_server, worker):
    async with sharing(tmp_path, redis_server, worker) as routers:
        host, port = routers.url.removeprefix("http://").split(":")
        opened = [await asyncio.open_connection(host, int(port)) for _ in range(12)]
        routers.processes[0].terminate()
        await asyncio.sleep(0.3)  # it has been heard
        for _, writer in opened:
            writer.write(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
        for reader, writer in opened:
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            writer.close()
        assert await asyncio.wait_for(routers.processes[0].wait(), 30) == 0


async def test_a_killed_routers_share_goes_to_the_other_at_once(tmp_path, redis_server, worker):
    async with sharing(tmp_path, redis_server, worker) as routers:
        survivor = await routers.who(routers.own[1])
        os.kill(routers.processes[0].pid, signal.SIGKILL)
        await routers.processes[0].wait()
        reached = await asyncio.gather(*(routers.who() for _ in range(20)))
        assert set(reached) == {survivor}
        answers = await asyncio.gather(*(routers.ask() for _ in range(20)))
        assert {answer.status_code for answer in answers} == {200}


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tls, ssl.SSLContext]:
    """A server's, and what trusts it."""
    folder, authority = tmp_path_factory.mktemp("tls"), trustme.CA()
    issued, trusting = authority.issue_cert("127.0.0.1"), ssl.create_default_context()
    issued.cert_chain_pems[0].write_to_path(folder / "cert")
    issued.private_key_pem.write_to_path(folder / "key")
    authority.configure_trust(trusting)
    return Tls(folder / "cert", folder / "key"), trusting


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_connections_that_wait_are_taken_before_the_port_is_left(run, encrypted, certificates):
    port = free_port()
    tls, trusting = None, None
    if encrypted:
        files, trusting = certificates
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(files.cert, files.key)

    def echoed(client: socket.socket) -> bytes:
        if trusting is not None:
            client = trusting.wrap_socket(client, server_hostname="127.0.0.1")
        with client:
            client.sendall(b"hello")
            return client.recv(5)

    async def scene() -> None:
        shared = SharedPort(bind_shared("127.0.0.1", port), lambda: True)
        await shared.join(Echo, tls)
        # nothing is awaited meanwhile: nobody accepts them
        clients = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(5)]
        leaving = asyncio.create_task(shared.leave(Echo, tls))
        answers = await asyncio.gather(*(asyncio.to_thread(echoed, one) for one in clients))
        assert answers == [b"hello"] * 5
        await leaving
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))

    run(scene())


async def test_a_router_joins_once_a_worker_is_ready():
    port, ready = free_port(), False
    shared = SharedPort(bind_shared("127.0.0.1", port), lambda: ready)
    joining = asyncio.create_task(shared.join(Echo, None))
    await asyncio.sleep(0.1)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    ready = True
    await joining
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.close()
    await shared.leave(Echo, None)


async def test_a_port_that_is_lost_before_it_is_joined_is_told():
    port = free_port()
    with bind_shared("127.0.0.1", port) as listener, socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        with pytest.raises(Unavailable, match=f"cannot share 127.0.0.1:{port}"):
            await SharedPort(listener, lambda: True).join(Echo, None)


def config(tmp_path: Path, port: int) -> RouterConfig:
    return RouterConfig(data=tmp_path / "data", store="redis://127.0.0.1:1/0", shared_port=port)


def test_a_port_is_shared_by_those_who_share_a_store():
    with pytest.raises(InvalidRequest, match="must share a store") as told:
        RouterConfig(shared_port=8300)
    assert "--store" in told.value.hint


def test_a_port_that_another_program_holds_is_told(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Unavailable, match=f"cannot share 127.0.0.1:{port}") as told:
            run_router(config(tmp_path, port), port=0)
        assert "another program" in told.value.hint
    assert not (tmp_path / "data").exists()


def test_its_own_port_cannot_be_the_shared_one(tmp_path):
    port = free_port()
    with pytest.raises(InvalidRequest, match="own port"):
        run_router(config(tmp_path, port), port=port)


def test_a_system_without_such_ports_is_told(tmp_path, monkeypatch):
    monkeypatch.delattr(socket, "SO_REUSEPORT")
    with pytest.raises(InvalidRequest, match="does not spread connections"):
        run_router(config(tmp_path, free_port()), port=0)
