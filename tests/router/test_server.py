"""The router as a process of its own: how it starts, ends, and is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import trustme

from agentserve.client import RouterClient
from agentserve.core.config import RouterConfig
from agentserve.core.errors import InvalidRequest, StorageFailed, Unavailable
from agentserve.router import run_router
from agentserve.router.server import Tls
from agentserve.testing.worker import FakeWorker

from .rig import eventually, new_session, picture

SERVE = """
import sys
from pathlib import Path
from agentserve.core.config import RouterConfig
from agentserve.router import run_router
from agentserve.testing.host import scripted_host
config = RouterConfig(data=Path(sys.argv[1]), workers=(sys.argv[2],), health_interval_s=0.1)
run_router(config, port=0, host_command=scripted_host)
"""


@asynccontextmanager
async def serving(data: Path, worker: FakeWorker, script: str = SERVE) -> AsyncIterator[tuple]:
    """(process, client) of a router that listens."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script, str(data), worker.url), stdout=asyncio.subprocess.PIPE
    )
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), 60)).decode()
        assert line.startswith("agentserve router listening on http://127.0.0.1:")
        async with RouterClient(line.split()[-1]) as client:
            await eventually(client.ready, lambda health: health.status == "ok", timeout_s=60)
            yield process, client
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def children(pid: int) -> list[int]:
    return [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def gone(pid: int) -> bool:
    return not alive(pid)


async def test_sigterm_ends_it_and_its_hosts(tmp_path):
    async with FakeWorker() as worker, serving(tmp_path, worker) as (process, client):
        session = await client.create_session(new_session())
        await client.turn(session.id, picture())
        (host,) = children(process.pid)
        process.terminate()
        # 0, or the signal that uvicorn passes on once it has ended in order
        assert await asyncio.wait_for(process.wait(), 30) in (0, -signal.SIGTERM)
        assert not alive(host)


async def test_kill_9_loses_no_session_and_leaves_no_host(tmp_path):
    async with FakeWorker() as worker:
        async with serving(tmp_path, worker) as (process, client):
            session = await client.create_session(new_session())
            first = await client.turn(session.id, picture(), epoch=0)
            cut = asyncio.create_task(
                client.turn(session.id, picture(), epoch=1, instruction="!hang")
            )
            await eventually(
                lambda: client.session(session.id), lambda s: s.status.value == "running"
            )
            (host,) = children(process.pid)
            os.kill(process.pid, signal.SIGKILL)
            with pytest.raises(Unavailable):
                await cut
            await eventually(lambda: gone(host))
        async with serving(tmp_path, worker) as (_, client):
            again = await client.turn(session.id, picture(), epoch=0)
            assert again == first.model_copy(update={"replayed": True})
            second = await client.turn(session.id, picture(), epoch=1)
            assert (second.turn, second.worker) == (1, first.worker)
            types = [event.type.value for event in (await client.events(session.id)).events]
            assert types == [
                "session.created",
                "pin.placed",
                "turn.started",
                "turn.completed",
                "turn.started",
                "turn.failed",
                "turn.started",
                "turn.completed",
            ]


async def test_a_data_folder_has_one_router(tmp_path):
    async with FakeWorker() as worker, serving(tmp_path, worker):
        second = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", SERVE, str(tmp_path), worker.url),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        _, errors = await asyncio.wait_for(second.communicate(), 60)
        assert second.returncode != 0
        assert f"another router uses the data folder {tmp_path}" in errors.decode()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda data: data.write_text("a file"), "cannot be made"),
        (lambda data: _database(data, b"not a database" * 100), "cannot be opened"),
        (lambda data: (data / "sessions.sqlite").mkdir(parents=True), "cannot be opened"),
    ],
    ids=["folder-is-a-file", "garbage", "database-is-a-folder"],
)
def test_a_data_folder_that_cannot_be_used_is_told(tmp_path, damage, words):
    damage(tmp_path / "data")
    with pytest.raises(StorageFailed, match=words) as told:
        run_router(RouterConfig(data=tmp_path / "data"), port=0)
    assert told.value.hint


def _database(data: Path, content: bytes) -> None:
    data.mkdir()
    (data / "sessions.sqlite").write_bytes(content)


async def test_what_cannot_be_written_is_refused_and_the_router_goes_on(tmp_path):
    """A limit on the size of files stands in for a full disk: writes fail alike."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))\n"
    async with FakeWorker() as worker:
        async with serving(tmp_path, worker, limit + SERVE) as (_, client):
            for _ in range(5):  # the limit is met between two writes or within one
                with pytest.raises(StorageFailed, match="cannot store"):
                    await client.put_blob(os.urandom(400_000))
            assert list((tmp_path / "blobs/incoming").iterdir()) == []
            session = await client.create_session(new_session())
            assert (await client.turn(session.id, picture())).epoch == 0


def test_a_taken_port_is_told(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Unavailable, match=f"cannot listen on 127.0.0.1:{port}"):
            run_router(RouterConfig(data=tmp_path), port=port)


TLS = """
import sys
from pathlib import Path
from agentserve.core.config import RouterConfig
from agentserve.router.server import Tls, run_router
from agentserve.testing.host import scripted_host
data = Path(sys.argv[1])
config = RouterConfig(data=data / "data", workers=(sys.argv[2],), health_interval_s=0.1)
run_router(config, port=0, tls=Tls(data / "cert", data / "key"), host_command=scripted_host)
"""


async def test_https(tmp_path):
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "cert")
    certificate.private_key_pem.write_to_path(tmp_path / "key")
    async with FakeWorker() as worker:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", TLS, str(tmp_path), worker.url), stdout=asyncio.subprocess.PIPE
        )
        try:
            line = (await asyncio.wait_for(process.stdout.readline(), 60)).decode()
            url = line.split()[-1]
            assert url.startswith("https://127.0.0.1:")
            trusted = ssl.create_default_context()
            authority.configure_trust(trusted)
            async with httpx.AsyncClient(verify=trusted, base_url=url) as http:
                assert (await http.get("/health")).status_code == 200
            async with RouterClient(url) as client:  # it does not know who signed this
                with pytest.raises(Unavailable, match="(?i)certificate"):
                    await client.sessions()
            async with httpx.AsyncClient() as http:
                with pytest.raises(httpx.TransportError):
                    await http.get(url.replace("https", "http") + "/health")
        finally:
            process.terminate()
            assert await process.wait() == 0


def test_files_that_are_no_certificate_are_told_before_anything_starts(tmp_path):
    (tmp_path / "cert").write_text("x")
    with pytest.raises(InvalidRequest, match="cannot be used"):
        run_router(RouterConfig(data=tmp_path / "d"), port=0, tls=Tls(tmp_path / "cert", tmp_path))
    assert not (tmp_path / "d").exists()
