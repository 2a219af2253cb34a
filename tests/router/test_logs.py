"""What a router process logs of requests and turns."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from agentserve.client import RouterClient
from agentserve.core.errors import AgentServeError
from agentserve.core.workers import WorkerList
from agentserve.router.workers.registry import worker_id
from agentserve.testing.worker import FakeWorker

from .rig import eventually, new_session, picture

SERVE = """
import sys
from pathlib import Path
from agentserve.core.config import LogConfig, RouterConfig
from agentserve.router import run_router
from agentserve.testing.host import scripted_host
data, level, *workers = sys.argv[1:]
config = RouterConfig(
    data=Path(data), workers=tuple(workers), health_interval_s=0.1, log=LogConfig("json", level)
)
run_router(config, port=0, host_command=scripted_host)
"""


class Logged:
    """The log of a router process."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def text(self) -> str:
        return self._path.read_text()

    async def records(self, **fields: Any) -> list[dict[str, Any]]:
        """Those that have these fields."""
        lines = self.text.splitlines(keepends=True)
        records = [json.loads(line) for line in lines if line.endswith("\n")]
        return [one for one in records if fields.items() <= one.items()]

    async def of(self, **fields: Any) -> dict[str, Any]:
        """The one record with these fields, once it is there."""
        (record,) = await eventually(lambda: self.records(**fields))
        return record


@asynccontextmanager
async def serving(
    data: Path, *workers: FakeWorker, level: str = "info"
) -> AsyncIterator[tuple[RouterClient, Logged]]:
    data.mkdir(exist_ok=True)
    path = data / "log"
    with path.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", SERVE, str(data), level, *(one.url for one in workers)),
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
        )
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), 60)).decode()
        async with RouterClient(line.split()[-1]) as client:
            await eventually(client.ready, lambda health: health.status == "ok", timeout_s=60)
            yield client, Logged(path)
    finally:
        process.terminate()
        await process.wait()


async def test_requests_and_turns_are_told_with_their_ids(tmp_path):
    async with FakeWorker() as worker, serving(tmp_path, worker) as (client, logged):
        session = await client.create_session(new_session())
        async with httpx.AsyncClient(base_url=client.url, timeout=30) as http:
            created = await logged.of(logger="agentserve.access", status=201)
            assert created["session_id"] == session.id
            assert created["worker_id"] == session.pin.worker_id
            route = f"/v1/sessions/{session.id}/turns"
            headers = {"X-Request-Id": "mine-1", "Authorization": "Bearer hunter2hunter2"}
            files = {"screenshot": picture()}
            answer = await http.post(route + "?key=hunter2", files=files, headers=headers)
            assert answer.status_code == 200

            turn = {"session_id": session.id, "turn": 0, "worker_id": worker_id(worker.url)}
            completed = await logged.of(
                logger="agentserve.router.turns.telemetry", request_id="mine-1", **turn
            )
            assert completed["message"].startswith("turn completed: ")
            assert (completed["attempts"], completed["ms"] > 0) == (1, True)
            access = await logged.of(logger="agentserve.access", request_id="mine-1", **turn)
            assert access["route"] == "/v1/sessions/{session_id}/turns"
            assert (access["method"], access["status"], access["level"]) == ("POST", 200, "info")
            assert access["bytes"] == len(answer.content)
            assert access["ms"] > 0

            prompt = {"text": "hello"}
            headers = {"X-Session-Id": "my:chat", "X-Request-Id": "mine-2"}
            answer = await http.post("/generate?api_key=hunter2", json=prompt, headers=headers)
            access = await logged.of(logger="agentserve.access", request_id="mine-2")
            assert (access["route"], access["session_id"]) == ("/generate", "my:chat")
            assert access["worker_id"] == worker_id(worker.url)
            assert access["bytes"] == len(answer.content)

            await http.get("/nowhere/hunter2")
            assert (await logged.of(route="unknown"))["status"] == 404
            for path in ("/health", "/ready", "/metrics"):
                await http.get(path)
        assert await logged.records(route="/metrics") == []
        assert "hunter2" not in logged.text
        assert session.task not in logged.text


async def test_a_turn_that_fails_says_why_and_details_can_be_had(tmp_path):
    async with FakeWorker() as worker, serving(tmp_path, worker, level="debug") as (client, logged):
        session = await client.create_session(new_session())
        try:
            await client.turn(session.id, picture(), instruction="!fail")
        except AgentServeError as error:
            assert error.code == "program_failed"
        failed = await logged.of(logger="agentserve.router.turns.log", session_id=session.id)
        assert (failed["level"], failed["turn"]) == ("warning", 0)
        assert "ValueError: scripted" in failed["message"]
        await logged.of(logger="agentserve.access", status=500, session_id=session.id)
        probes = await logged.records(route="/ready")
        assert probes and {record["level"] for record in probes} == {"debug"}


async def test_a_client_forges_no_record(tmp_path):
    async with FakeWorker() as worker, serving(tmp_path, worker) as (client, logged):
        forged = '/v1/sessions/x%0a{"level":"info","message":"all is well"}%0d%0a/turns'
        async with httpx.AsyncClient(base_url=client.url) as http:
            assert (await http.get(forged)).status_code == 404
        access = await logged.of(logger="agentserve.access", status=404)
        assert "all is well" in access["session_id"]
        assert await logged.records(message="all is well") == []


async def test_a_drain_is_told_with_its_worker_and_sessions(tmp_path):
    async with (
        FakeWorker() as one,
        FakeWorker() as two,
        serving(tmp_path, one, two) as (client, logged),
    ):
        await eventually(client.workers, _all_ready)
        session = await client.create_session(new_session())
        await client.turn(session.id, picture())
        await client.drain(session.pin.worker_id)
        moved = await logged.of(logger="agentserve.router.pins.draining", session_id=session.id)
        assert moved["worker_id"] == session.pin.worker_id
        assert "request_id" not in moved


def _all_ready(listed: WorkerList) -> bool:
    return all(worker.state.value == "ready" for worker in listed.workers)
