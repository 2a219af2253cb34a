"""One trace over all processes: a client's, the router's and the program host's, up to the worker.

The processes are real, and so is what they send: a collector in this process reads OTLP.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentserve.cli.serve import _traces
from agentserve.core import tracing
from agentserve.nano.tokenizer import build_tokenizer
from agentserve.testing.server import LoopbackServer
from agentserve.testing.worker import FakeWorker

from .rig import Rig, eventually, picture

TASK = "press the secret button"
PROGRAM = """
import sglang as sgl
from agentserve.lang import action, screen

@sgl.function
def begin(s, task):
    s += sgl.system("You operate a web page.")

@sgl.function
def turn(s, view, instruction, feedback):
    s += sgl.user(screen(view) + instruction)
    s += sgl.assistant(action(view))
"""
CLIENT = """
import asyncio, sys
from pathlib import Path
from agentserve.client import RouterClient
from agentserve.core.screens import Size
from agentserve.core.sessions import SessionCreate
from agentserve.core.tracing import exporting, span

async def main(url, screen, task):
    create = SessionCreate(program="probe", task=task, viewport=Size(width=160, height=210))
    async with RouterClient(url) as router:
        with span("episode"):
            session = await router.create_session(create)
            await router.turn(session.id, Path(screen).read_bytes(), epoch=0)
            print(session.id)

with exporting("agentserve-client", True):
    asyncio.run(main(*sys.argv[1:]))
"""


@dataclass
class Span:
    service: str
    name: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]


@dataclass
class Collector:
    """What a collector was sent."""

    url: str = ""
    bodies: list[bytes] = field(default_factory=list)

    @property
    def spans(self) -> list[Span]:
        return [
            Span(
                service=_plain(resource.resource.attributes)["service.name"],
                name=span.name,
                trace=span.trace_id.hex(),
                id=span.span_id.hex(),
                parent=span.parent_span_id.hex(),
                attributes=_plain(span.attributes),
            )
            for body in self.bodies
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    async def named(self, name: str, **attributes: Any) -> Span:
        """The one span of this name with these attributes, once it has been sent."""
        wanted = {f"agentserve.{key}": value for key, value in attributes.items()}

        async def found() -> list[Span]:
            return [
                span
                for span in self.spans
                if span.name == name and wanted.items() <= span.attributes.items()
            ]

        (span,) = await eventually(found)
        return span


def _plain(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


@asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    collector = Collector()

    async def take(request: Request) -> Response:
        assert request.headers["content-type"] == "application/x-protobuf"
        collector.bodies.append(await request.body())
        return Response(media_type="application/x-protobuf")

    app = Starlette(routes=[Route("/v1/traces", take, methods=["POST"])])
    async with LoopbackServer(app, lifespan=False) as server:
        collector.url = server.url
        yield collector


def environment(collector: str) -> dict[str, str]:
    return os.environ | {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector,
        "OTEL_BSP_SCHEDULE_DELAY": "50",
        "PYTHONUNBUFFERED": "1",
    }


@dataclass
class Traced:
    """A running ``agentserve serve`` with its own program host, and where its traces go."""

    url: str
    worker: FakeWorker
    collector: Collector
    log: Path

    async def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@pytest.fixture(scope="module")
async def traced(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Traced]:
    data = tmp_path_factory.mktemp("traced")
    (data / "probe.py").write_text(PROGRAM)
    async with AsyncExitStack() as stack:
        collector = await stack.enter_async_context(collecting())
        tokenizer = build_tokenizer().to_str()
        worker = await stack.enter_async_context(FakeWorker(tokenizer=tokenizer))
        log = stack.enter_context((data / "log").open("wb"))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "agentserve.cli", "serve", "--port", "0"),
            *("--worker", worker.url, "--data", str(data / "router")),
            *("--programs", str(data / "probe.py"), "--log-format", "json"),
            env=environment(collector.url),
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
        )
        try:
            line = (await asyncio.wait_for(process.stdout.readline(), 60)).decode()
            url = line.split()[-1]
            async with httpx.AsyncClient(base_url=url) as http:
                await eventually(lambda: http.get("/ready"), lambda a: a.status_code == 200, 120)
            yield Traced(url, worker, collector, data / "log")
        finally:
            process.terminate()
            await process.wait()


def carried(worker: FakeWorker) -> tuple[str, str]:
    """Trace and span of the last generation's traceparent, which says that they are recorded."""
    version, trace, span, flags = worker.headers[-1]["traceparent"].split("-")
    assert version == "00" and int(flags, 16) & 1
    return trace, span


async def test_a_turn_is_one_trace_from_the_client_to_the_worker(traced: Traced, tmp_path):
    (tmp_path / "screen.png").write_bytes(picture())
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", CLIENT, traced.url, str(tmp_path / "screen.png"), TASK),
        env=environment(traced.collector.url),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    session_id = out.decode().strip()

    turn = await traced.collector.named("turn", session_id=session_id)
    episode = await traced.collector.named("episode")
    host = await traced.collector.named("/turns", session_id=session_id)
    route = "POST /v1/sessions/{session_id}/turns"
    request = await traced.collector.named(route, session_id=session_id)
    spans = {span.id: span for span in traced.collector.spans if span.trace == episode.trace}

    def way(span: Span) -> list[tuple[str, str]]:
        """From a span up to the root."""
        above = way(spans[span.parent]) if span.parent else []
        return [(span.service, span.name), *above]

    client, router = "agentserve-client", "agentserve-router"
    top = [(router, "turn"), (router, route), (client, "POST"), (client, "episode")]
    assert way(turn) == top
    assert way(host) == [("agentserve-program-host", "/turns"), (router, "program"), *top]
    phases = {span.name for span in spans.values() if span.parent == turn.id}
    assert phases == {"decode", "wait", "plan", "program", "store"}

    (generation,) = [span for span in spans.values() if span.name == "POST /generate"]
    assert generation.parent == host.id
    assert carried(traced.worker) == (episode.trace, generation.id)

    told = {key.removeprefix("agentserve."): value for key, value in turn.attributes.items()}
    assert (told["turn"], told["epoch"], told["attempts"]) == (0, 0, 1)
    assert told["prompt_tokens"] > told["cached_tokens"] >= 0 and told["completion_tokens"] > 0
    assert request.attributes["http.response.status_code"] == 200
    assert request.attributes["agentserve.worker_id"] == told["worker_id"]
    # a trace that finds its log
    completed = [r for r in await traced.records() if r["message"].startswith("turn completed")]
    assert [record["trace_id"] for record in completed] == [episode.trace]


async def test_no_span_tells_what_is_asked_or_answered(traced: Traced):
    async with httpx.AsyncClient(base_url=traced.url) as http:
        create = {"program": "probe", "task": TASK, "viewport": {"width": 160, "height": 210}}
        session = (await http.post("/v1/sessions?key=hunter2", json=create)).json()
        answer = await http.post(
            f"/v1/sessions/{session['id']}/turns",
            files={"screenshot": picture()},
            data={"instruction": "type hunter2"},
            headers={"Authorization": "Bearer hunter2"},
        )
        assert answer.status_code == 200
        await http.get(f"/v1/sessions/{session['id']}/turns?after=hunter2")
    await traced.collector.named("turn", session_id=session["id"])
    await traced.collector.named("GET /v1/sessions/{session_id}/turns", session_id=session["id"])
    sent = b"".join(traced.collector.bodies)
    assert session["id"].encode() in sent
    for word in (b"hunter2", TASK.encode(), answer.json()["text"].encode(), b"You operate"):
        assert word not in sent


async def test_the_router_begins_a_trace_when_a_pass_through_client_has_none(traced: Traced):
    async with httpx.AsyncClient(base_url=traced.url) as http:
        await http.post("/generate", json={"text": "hi"}, headers={"X-Request-Id": "passed-1"})
        request = await traced.collector.named("POST /generate", request_id="passed-1")
        assert request.service == "agentserve-router" and request.parent == ""
        assert carried(traced.worker) == (request.trace, request.id)

        own = f"00-{'ab' * 16}-{'cd' * 8}-01"
        headers = {"traceparent": own, "tracestate": "a=1 , b=2", "X-Request-Id": "passed-2"}
        await http.post("/generate", json={"text": "hi"}, headers=headers)
        request = await traced.collector.named("POST /generate", request_id="passed-2")
        assert (request.trace, request.parent) == ("ab" * 16, "cd" * 8)
        sent = traced.worker.headers[-1]
        assert (sent["traceparent"], sent["tracestate"]) == (own, "a=1 , b=2")


async def test_a_failed_turn_is_told_by_its_code(traced: Traced):
    async with httpx.AsyncClient(base_url=traced.url) as http:
        create = {"program": "probe", "task": TASK, "viewport": {"width": 160, "height": 210}}
        session = (await http.post("/v1/sessions", json=create)).json()
        traced.worker.faults.append("refuse")
        url = f"/v1/sessions/{session['id']}/turns"
        answer = await http.post(url, files={"screenshot": picture()})
        assert answer.json()["code"] == "worker_refused"
    turn = await traced.collector.named("turn", session_id=session["id"])
    assert turn.attributes["error.type"] == "worker_refused"
    assert b"scripted refusal" not in b"".join(traced.collector.bodies)


async def test_probes_have_no_spans(traced: Traced):
    async with httpx.AsyncClient(base_url=traced.url) as http:
        for path in ("/health", "/metrics"):
            await http.get(path)
        await http.get("/nowhere/hunter2", headers={"X-Request-Id": "last"})
    await traced.collector.named("GET unknown", request_id="last")
    names = {span.name for span in traced.collector.spans}
    assert not [name for name in names if "health" in name or "ready" in name or "metrics" in name]


@pytest.mark.parametrize("own", [f"00-{'ab' * 16}-{'cd' * 8}-01", "no trace at all"])
async def test_a_router_that_does_not_trace_hands_headers_on(rig: Rig, own: str):
    async def sent(**headers: str) -> dict[str, str]:
        """What the worker got."""
        answer = await rig.http.post("/generate", json={"text": "hi"}, headers=headers)
        chosen = rig.services.registry.get(answer.headers["x-agentserve-worker"])
        return next(fake.headers[-1] for fake in rig.workers if fake.url == chosen.url)

    assert (await sent(traceparent=own))["traceparent"] == own
    assert "traceparent" not in await sent()


async def test_a_collector_that_hangs_holds_nobody_up():
    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    script = (
        "from agentserve.core.tracing import exporting, span\n"
        "with exporting('x', True):\n"
        "    with span('y'): pass\n"
    )
    async with await asyncio.start_server(hang, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        waits = {"OTEL_EXPORTER_OTLP_TIMEOUT": "120"}
        begun = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", script, env=environment(url) | waits
        )
        assert await asyncio.wait_for(process.wait(), 60) == 0
        # without a limit of ours: the SDK's, 30 s
        assert tracing.FLUSH_S <= time.monotonic() - begun < 25


WITHOUT_EXPORTER = """
import sys
sys.modules["opentelemetry.exporter"] = None  # as if it were not installed
from agentserve.cli import main, serve
if sys.argv[1:]:
    main()
print(serve._traces(None))
"""


def without_exporter(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_EXPORTER, *arguments],
        env=environment("http://127.0.0.1:1"),
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_what_is_missing_is_said():
    demanded = without_exporter("serve", "--worker", "http://127.0.0.1:1", "--trace")
    assert demanded.returncode == 1
    assert "pip install 'agentserve[trace]'" in " ".join(demanded.stderr.split())
    # the variable alone may be meant for others on the machine
    set_only = without_exporter()
    assert set_only.stdout == "False\n"
    assert "no traces are exported" in " ".join(set_only.stderr.split())
    assert "pip install 'agentserve[trace]'" in " ".join(set_only.stderr.split())


def test_when_traces_are_exported(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    assert (_traces(None), _traces(False)) == (True, False)
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert _traces(None) is False
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT")
    assert (_traces(None), _traces(True)) == (False, True)
    with tracing.exporting("x", False):  # not wanted: nothing is needed
        pass
