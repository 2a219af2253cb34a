"""SGLang's own API through the router."""

from __future__ import annotations

import asyncio
import json

import httpx
import openai
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentserve.router.passthrough.answer import _last_end
from agentserve.router.workers.registry import worker_id
from agentserve.testing.server import LoopbackServer
from agentserve.testing.worker import FakeWorker

from .rig import Rig, eventually, new_session, picture, running_rig

PROMPT = {"text": "hello", "sampling_params": {"max_new_tokens": 4}}


def worker_of(rig: Rig, answer: httpx.Response) -> str:
    return answer.headers["x-agentserve-worker"]


@pytest.mark.parametrize("path", ["/v1/models", "/model_info", "/get_model_info", "/server_info"])
async def test_what_a_frontend_asks_is_answered_by_a_worker(rig: Rig, path):
    answer = await rig.http.get(path)
    direct = httpx.Response(200, content=(await _direct(rig.workers[0].url + path)).content)
    assert answer.content == direct.content


async def _direct(url: str) -> httpx.Response:
    async with httpx.AsyncClient() as http:
        return await http.get(url)


async def test_generate_and_chat_pass(rig: Rig):
    answer = (await rig.http.post("/generate", json=PROMPT)).json()
    assert answer["text"] == "click 10 10"
    chat = {"model": "x", "messages": [{"role": "user", "content": "hi"}]}
    answer = (await rig.http.post("/v1/chat/completions", json=chat)).json()
    assert answer["choices"][0]["message"]["content"] == "click 10 10"


async def test_streams_pass_chunk_by_chunk(rig: Rig):
    async with rig.http.stream("POST", "/generate", json=PROMPT | {"stream": True}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = [line async for line in answer.aiter_lines() if line]
    assert json.loads(lines[0][6:])["text"] == "c"
    assert json.loads(lines[1][6:])["text"] == "click 10 10"
    assert lines[2] == "data: [DONE]"


async def test_a_workers_refusal_passes_as_it_is(rig: Rig):
    session = {"X-Session-Id": "refused"}
    worker = worker_of(rig, await rig.http.post("/generate", json=PROMPT, headers=session))
    url = rig.services.registry.get(worker).url
    next(fake for fake in rig.workers if fake.url == url).faults.append("refuse")
    answer = await rig.http.post("/generate", json=PROMPT, headers=session)
    assert (answer.status_code, answer.json()) == (
        400,
        {"error": {"message": "scripted refusal"}},
    )


async def test_bytes_and_headers_are_kept(tmp_path):
    seen: list[tuple[dict, bytes, str]] = []

    async def echo(request: Request) -> Response:
        seen.append((dict(request.headers), await request.body(), str(request.url.query)))
        response = Response(b"\x1f\x8b\x00raw", status_code=202)
        response.raw_headers += [
            (b"content-encoding", b"x-odd"),
            (b"set-cookie", b"a=1"),
            (b"set-cookie", b"b=2"),
            (b"connection", b"x-hop"),
            (b"x-hop", b"1"),
            (b"date", b"long ago"),
            (b"server", b"odd"),
            (b"x-agentserve-worker", b"forged"),
        ]
        return response

    async def health(request: Request) -> Response:
        return Response()

    routes = [Route("/generate", echo, methods=["POST"]), Route("/health", health)]
    async with (
        LoopbackServer(Starlette(routes=routes)) as worker,
        running_rig(tmp_path, [], workers=(worker.url,), plain_workers=True) as rig,
    ):
        await eventually(rig.client.ready, lambda health: health.status == "ok")
        body = b'{"text" : "\xc3\xa9",\n "b": 1e400}'
        async with rig.http.stream(
            "POST",
            "/generate?x=%20y&x=2",
            content=body,
            headers=[
                (b"Authorization", b"Bearer k"),
                (b"X-Mine", b"1"),
                (b"Connection", b"x-mine"),
                (b"X-Owner", b"J\xf6rg"),  # no UTF-8
                (b"Expect", b"100-continue"),
            ],
        ) as answer:
            content = b"".join([chunk async for chunk in answer.aiter_raw()])
        headers, received, query = seen[0]
        assert received == body
        assert query == "x=%20y&x=2"
        assert headers["authorization"] == "Bearer k"
        assert "x-mine" not in headers and "expect" not in headers
        assert headers["x-owner"].encode("latin-1") == b"J\xf6rg"
        assert headers["host"] == worker.url.removeprefix("http://")
        assert headers["user-agent"].startswith("python-httpx")
        assert (answer.status_code, content) == (202, b"\x1f\x8b\x00raw")
        assert answer.headers.get_list("set-cookie") == ["a=1", "b=2"]
        assert answer.headers["content-encoding"] == "x-odd"
        assert "x-hop" not in answer.headers
        assert answer.headers.get_list("server") == ["uvicorn"]
        assert len(answer.headers.get_list("date")) == 1
        assert "long ago" not in answer.headers["date"]
        assert answer.headers.get_list("x-agentserve-worker") == [worker_id(worker.url)]
        plain = (await rig.client.workers()).workers[0]
        assert (plain.state.value, plain.report) == ("ready", None)
        refused = await rig.http.post("/v1/sessions", json=new_session().model_dump(mode="json"))
        assert refused.json()["code"] == "no_worker"


async def test_a_large_body_passes(rig: Rig):
    long = {"text": "x" * 3_000_000, "sampling_params": {"max_new_tokens": 4}}
    answer = await rig.http.post("/generate", json=long, headers={"X-Session-Id": "long"})
    assert answer.status_code == 200
    assert any(body == long for worker in rig.workers for body in worker.requests)


async def test_a_named_session_stays_on_its_worker(rig: Rig):
    async def ask(name: str) -> str:
        answer = await rig.http.post("/generate", json=PROMPT, headers={"X-Session-Id": name})
        return worker_of(rig, answer)

    names = [f"agent:{number}" for number in range(12)]
    first = [await ask(name) for name in names]
    assert len(set(first)) == 2
    assert await asyncio.gather(*(ask(name) for name in names)) == first


async def test_a_rest_sessions_id_uses_its_pin_and_its_end(rig: Rig):
    sessions = [await rig.client.create_session(new_session()) for _ in range(4)]
    for session in sessions:
        headers = {"X-Session-Id": session.id}
        answer = await rig.http.post("/generate", json=PROMPT, headers=headers)
        assert worker_of(rig, answer) == session.pin.worker_id
    await rig.client.release(session.id)
    closed = await rig.http.post("/generate", json=PROMPT, headers=headers)
    assert (closed.status_code, closed.json()["code"]) == (409, "session_closed")


async def test_a_named_pin_survives_the_router(tmp_path):
    async with FakeWorker() as one, FakeWorker() as two:
        headers = {"X-Session-Id": "durable"}
        workers = []
        for _ in range(2):
            async with running_rig(tmp_path, [one, two]) as rig:
                answer = await rig.http.post("/generate", json=PROMPT, headers=headers)
                workers.append(worker_of(rig, answer))
                known = await rig.services.store.pass_pin("durable")
                assert (known.pin.worker_id, known.pin.generation) == (workers[0], 1)
        assert workers[0] == workers[1]


async def test_each_model_has_its_own_worker_also_under_one_name(tmp_path):
    async with (
        FakeWorker(model="small") as small,
        FakeWorker(model="large") as large,
        running_rig(tmp_path, [small, large]) as rig,
    ):
        held = {"small": worker_id(small.url), "large": worker_id(large.url)}

        async def ask(model: str, **more: str) -> httpx.Response:
            chat = {"model": model, "messages": [{"role": "user", "content": "hi"}]} | more
            return await rig.http.post("/v1/chat/completions", json=chat)

        for model in ("small", "large", "small", "models/large", "large"):
            for more in ({}, {"user": "one"}):
                answer = await ask(model, **more)
                assert worker_of(rig, answer) == held[model.removeprefix("models/")]
        for more in ({}, {"user": "one"}, {"user": "new"}):
            answer = await ask("huge", **more)
            assert (answer.status_code, answer.json()["code"]) == (404, "unknown_model")
            assert "small" in answer.json()["hint"]
        await large.stop()
        await eventually(lambda: ask("large"), lambda answer: answer.status_code == 503)
        # a model whose worker is away is no unknown one, and another model does not answer for it
        for more in ({}, {"user": "one"}, {"user": "new"}):
            answer = await ask("large", **more)
            assert (answer.status_code, answer.json()["code"]) == (503, "no_worker")
        assert worker_of(rig, await ask("small", user="one")) == held["small"]


async def test_a_dead_worker_is_replaced_before_the_first_byte_only(tmp_path):
    async with running_rig(tmp_path) as rig:
        session = await rig.client.create_session(new_session())
        headers = {"X-Session-Id": session.id}
        dying = rig.worker_of(session)
        dying.faults.append("die")
        answer = await rig.http.post("/generate", json=PROMPT, headers=headers)
        assert answer.status_code == 200
        assert worker_of(rig, answer) != session.pin.worker_id
        moved = [e for e in await rig.events(session.id) if e.type.value == "pin.moved"]
        assert [event.data["reason"] for event in moved] == ["lost"]

        survivor = next(worker for worker in rig.workers if worker is not dying)
        survivor.faults.append("die_midway")
        async with rig.http.stream(
            "POST", "/generate", json=PROMPT | {"stream": True}, headers=headers
        ) as stream:
            lines = [line async for line in stream.aiter_lines() if line]
        assert len(survivor.requests) == 2  # the retry of the first, and this one once
        # what was whole is there, then the reason; no [DONE]
        first, last = (json.loads(line.removeprefix("data: ")) for line in lines)
        assert first == {"text": "c"}
        assert last["error"]["code"] == "worker_lost"
        assert last["error"]["session_id"] == headers["X-Session-Id"]
        assert last["error"]["request_id"] == stream.headers["x-request-id"]


async def test_an_openai_client_raises_when_its_stream_breaks(tmp_path):
    async with running_rig(tmp_path) as rig:
        for worker in rig.workers:
            worker.faults.append("die_midway")
        url = f"{rig.server.url}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            stream = await client.chat.completions.create(
                model="any", messages=[{"role": "user", "content": "t"}], stream=True
            )
            with pytest.raises(openai.APIError, match="was lost"):
                async for _ in stream:
                    pass


@pytest.mark.parametrize(
    ("sent", "whole", "rest"),
    [
        (b"data: 1\n\ndata: 2", b"data: 1\n\n", b"data: 2"),
        (b"data: 1\r\n\r\n", b"data: 1\r\n\r\n", b""),
        (b"data: 1\n", b"", b"data: 1\n"),
        (b"a\n\nb\r\n\r\nc", b"a\n\nb\r\n\r\n", b"c"),
    ],
)
def test_where_the_last_whole_event_ends(sent: bytes, whole: bytes, rest: bytes):
    end = _last_end(sent)
    assert (sent[:end], sent[end:]) == (whole, rest)


async def test_no_worker_at_all(tmp_path):
    async with running_rig(tmp_path, []) as rig:
        answer = await rig.http.post("/generate", json=PROMPT)
        assert (answer.status_code, answer.json()["code"]) == (503, "no_worker")
        assert int(answer.headers["retry-after"]) >= 1


async def test_a_lost_worker_without_a_substitute_is_an_error(tmp_path):
    async with FakeWorker() as worker, running_rig(tmp_path, [worker]) as rig:
        worker.faults.append("die")
        answer = await rig.http.post("/generate", json=PROMPT)
        assert (answer.status_code, answer.json()["code"]) == (502, "worker_lost")
        listed = (await rig.client.workers()).workers[0]
        assert (listed.state.value, listed.running_turns) == ("down", 0)


async def test_a_silent_worker_is_a_timeout(tmp_path):
    async with FakeWorker() as worker, running_rig(tmp_path, [worker], worker_timeout_s=0.3) as rig:
        worker.faults.append("hang")
        answer = await rig.http.post("/generate", json=PROMPT)
        assert (answer.status_code, answer.json()["code"]) == (504, "turn_timeout")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_before_the_answer_aborts_its_request(tmp_path, stream):
    async with FakeWorker() as worker, running_rig(tmp_path, [worker]) as rig:
        worker.faults.append("hang")
        body = PROMPT | {"stream": stream}
        asking = asyncio.create_task(rig.http.post("/generate", json=body))

        async def counts() -> tuple[int, int, int]:
            running = (await rig.client.workers()).workers[0].running_turns
            return len(worker.requests), running, len(worker.aborted)

        await eventually(counts, lambda counts: counts == (1, 1, 0))
        asking.cancel()
        # given up everywhere, and not asked again
        await eventually(counts, lambda counts: counts == (1, 0, 1))
        assert worker.aborted == [body]
        assert (await rig.http.post("/generate", json=PROMPT)).status_code == 200


@pytest.fixture
def long_kept(monkeypatch) -> dict[str, float]:
    """Settings of a router whose next request surely meets the connection of the last one."""
    monkeypatch.setattr("agentserve.router.forwarding.forwarder.KEEP_CONNECTION_S", 60.0)
    return {"health_interval_s": 60.0}  # a poll would take the connection for itself


async def test_a_kept_connection_that_breaks_moves_nothing(tmp_path, long_kept):
    async with running_rig(tmp_path, **long_kept) as rig:
        session = await rig.client.create_session(new_session())
        headers = {"X-Session-Id": session.id}
        await rig.http.post("/generate", json=PROMPT, headers=headers)
        rig.worker_of(session).faults.append("drop")
        answer = await rig.http.post("/generate", json=PROMPT, headers=headers)
        assert (answer.status_code, worker_of(rig, answer)) == (200, session.pin.worker_id)
        assert len(rig.worker_of(session).requests) == 3
        assert (await rig.client.session(session.id)).pin == session.pin


async def test_a_kept_connection_is_replaced_once_only(tmp_path, long_kept):
    async with FakeWorker() as worker, running_rig(tmp_path, [worker], **long_kept) as rig:
        await rig.http.post("/generate", json=PROMPT)
        worker.faults += ["drop", "drop"]
        answer = await rig.http.post("/generate", json=PROMPT)
        assert (answer.status_code, answer.json()["code"]) == (502, "worker_lost")
        assert len(worker.requests) == 3


async def test_a_status_that_http_does_not_have_is_a_lost_worker(tmp_path):
    async def answer_oddly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1]
        status = {b"/generate": 999, b"/health": 200}.get(path, 404)
        writer.write(b"HTTP/1.1 %d Odd\r\nconnection: close\r\ncontent-length: 0\r\n\r\n" % status)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer_oddly, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with running_rig(tmp_path, [], workers=(url,), plain_workers=True) as rig:
            await eventually(rig.client.ready, lambda health: health.status == "ok")
            answer = await rig.http.post("/generate", json=PROMPT)
            assert (answer.status_code, answer.json()["code"]) == (502, "worker_lost")
            assert "999" in answer.json()["message"]


async def test_the_model_of_a_chat_chooses_between_models(tmp_path):
    async with FakeWorker(model="a") as a, FakeWorker(model="b") as b:
        async with running_rig(tmp_path, [a, b]) as rig:
            chat = {"messages": [{"role": "user", "content": "hi"}]}
            for name in ("a", "b", "models/b"):
                answer = await rig.http.post("/v1/chat/completions", json=chat | {"model": name})
                assert answer.json()["model"] == name.removeprefix("models/")
            other = await rig.http.post("/v1/chat/completions", json=chat | {"model": "c"})
            assert other.json()["details"] == {"models": ["a", "b", "models/a", "models/b"]}
            turn = await rig.client.create_session(new_session(model="b"))
            assert rig.worker_of(turn) is b
            assert (await rig.client.turn(turn.id, picture())).worker.boot_id == b.boot_id
