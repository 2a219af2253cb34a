from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx
import pytest

from agentserve.core.errors import by_code, from_body
from agentserve.core.hosting import HostAnswer, HostWarming, ProgramList
from agentserve.core.plans import TextPiece
from agentserve.core.sessions import CallUsage
from agentserve.lang import service
from agentserve.lang.service import create_app
from agentserve.testing.server import LoopbackServer
from agentserve.testing.worker import FakeWorker

ACT = "s += sgl.user(screen(view) + instruction) + sgl.assistant(action(view))"


@pytest.fixture
def client(runner):
    """``client(threads)``: a client of a service over the programs written so far."""

    def make(threads: int = 4, on_stuck=lambda: None) -> httpx.AsyncClient:
        app = create_app(runner(), threads=threads, on_stuck=on_stuck)
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(app, raise_app_exceptions=False), base_url="http://host"
        )

    return make


def is_error(response: httpx.Response, code: str) -> bool:
    body = response.json()
    known = by_code()[code]
    assert response.status_code == known.status
    assert set(body) == {"code", "message", "hint", "details", "session_id", "request_id"}
    assert type(from_body(body)) is known
    return body["code"] == code


async def test_the_list_of_programs(write_program, programs, client) -> None:
    write_program(ACT)
    (programs / "bad.py").write_text("=")
    async with client() as http:
        listing = ProgramList.model_validate((await http.get("/programs")).json())
    assert [info.name for info in listing.programs] == ["probe"]
    assert list(listing.broken) == [str(programs / "bad.py")]


async def test_a_turn(write_program, client, make_turn, scripted) -> None:
    write_program(ACT)
    async with client() as http:
        response = await http.post(
            "/turns", content=make_turn("probe", scripted.url).model_dump_json()
        )
    assert response.status_code == 200
    assert HostAnswer.model_validate_json(response.content).action_text == "click 1 2"


async def test_a_warming(write_program, client, make_turn, scripted) -> None:
    write_program(ACT)
    turn = make_turn("probe", scripted.url)
    names = HostWarming.model_fields.keys() - {"pieces"}
    pieces = [TextPiece(ids=[5, 6, 7], text="abc")]
    warming = HostWarming(pieces=pieces, **turn.model_dump(include=names))
    async with client() as http:
        response = await http.post("/warmings", content=warming.model_dump_json())
        broken = await http.post("/warmings", content=warming.model_dump_json()[:-1])
    assert CallUsage.model_validate_json(response.content).prompt_tokens == 3
    (sent,) = scripted.requests
    assert (sent["input_ids"], sent["sampling_params"]["max_new_tokens"]) == ([5, 6, 7], 0)
    assert is_error(broken, "invalid_request")


async def test_errors_have_one_shape(write_program, client, make_turn, scripted) -> None:
    write_program("raise ValueError('boom')")
    write_program(ACT, name="good")
    bad, good, unknown = [
        make_turn(name, scripted.url).model_dump_json() for name in ("probe", "good", "nobody")
    ]
    async with client() as http:
        response = await http.post("/turns", content=bad)
        assert is_error(response, "program_failed")
        assert response.json()["session_id"] == "s_test"
        assert response.json()["request_id"] == "r_test"
        assert "Traceback" not in response.text
        assert is_error(await http.post("/turns", content=unknown), "unknown_program")
        scripted.script = [500]
        assert is_error(await http.post("/turns", content=good), "worker_lost")
        scripted.script = [400]
        assert is_error(await http.post("/turns", content=good), "worker_refused")
        assert is_error(await http.post("/turns", content=b"{}"), "invalid_request")
        assert is_error(await http.post("/turns", content=b"\xff"), "invalid_request")
        for method, path, status in [("GET", "/nothing", 404), ("GET", "/turns", 405)]:
            response = await http.request(method, path)
            assert (response.status_code, response.json()["code"]) == (status, "invalid_request")


async def test_turns_at_once_do_not_touch_each_other(
    write_program, client, make_turn, scripted
) -> None:
    write_program(ACT + "\ns['mine'] = instruction + '|' + s['action']")
    turns = [
        make_turn("probe", scripted.url, instruction=f"Task {n}", session_id=f"s{n}", shade=n)
        for n in range(8)
    ]
    async with client(threads=8) as http:
        responses = await asyncio.gather(
            *(http.post("/turns", content=turn.model_dump_json()) for turn in turns)
        )
    for n, response in enumerate(responses):
        answer = HostAnswer.model_validate_json(response.content)
        assert answer.variables["mine"] == f"Task {n}|click 1 2"
        text = "".join(piece.text for piece in answer.pieces if piece.kind == "text")
        assert f"Task {n}" in text
        assert [p.blob for p in answer.pieces if p.kind == "image"] == [
            turns[n].plan.screen[0].blob
        ]
    assert scripted.fetches >= 2  # the test's own, then at least one of the host


async def test_a_program_that_does_not_stop_is_given_up(
    write_program, client, make_turn, scripted, monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    monkeypatch.setattr(service, "GRACE_S", 0.05)
    go_on = tmp_path / "go_on"
    go_on.touch()
    write_program(
        f"import os, time\nwhile not os.path.exists({str(go_on)!r}):\n    time.sleep(0.01)"
    )
    stuck: list[str] = []
    turn = make_turn("probe", scripted.url, timeout_s=0.5).model_dump_json()
    patient = make_turn("probe", scripted.url).model_dump_json()
    try:
        async with client(threads=2, on_stuck=lambda: stuck.append("all")) as http:
            assert (await http.post("/turns", content=patient)).status_code == 200
            go_on.unlink()
            assert is_error(await http.post("/turns", content=turn), "turn_timeout")
            assert stuck == []
            assert is_error(await http.post("/turns", content=turn), "turn_timeout")
            assert stuck == ["all"]
            # a third one never starts: it is cancelled, and does not count as stuck again
            assert is_error(await http.post("/turns", content=turn), "turn_timeout")
            assert stuck == ["all"]
            go_on.touch()
            assert (await http.post("/turns", content=patient)).status_code == 200
    finally:
        go_on.touch()


async def test_a_client_that_leaves_has_the_workers_request_aborted(
    write_program, runner, make_turn, tokenizer_json: str
) -> None:
    write_program(ACT)
    stuck: list[str] = []
    async with FakeWorker(tokenizer=tokenizer_json) as worker:
        turn = await asyncio.to_thread(make_turn, "probe", worker.url)
        app = create_app(runner(), threads=1, on_stuck=lambda: stuck.append("all"))
        async with (
            LoopbackServer(app) as server,
            httpx.AsyncClient(base_url=server.url, timeout=30) as http,
        ):
            worker.faults.append("hang")
            asked = asyncio.create_task(http.post("/turns", content=turn.model_dump_json()))
            await until(lambda: len(worker.requests) == 1)
            asked.cancel()
            await until(lambda: worker.aborted == worker.requests)
            answer = await http.post("/turns", content=turn.model_dump_json())
    assert HostAnswer.model_validate_json(answer.content).action_text == "click 10 10"
    assert stuck == []


async def test_a_turn_whose_client_left_before_its_thread_came_is_never_sent(
    write_program, runner, make_turn, tokenizer_json: str
) -> None:
    write_program(ACT)
    async with FakeWorker(tokenizer=tokenizer_json) as worker:
        turn = await asyncio.to_thread(make_turn, "probe", worker.url)
        app = create_app(runner(), threads=1, on_stuck=lambda: None)
        async with (
            LoopbackServer(app) as server,
            httpx.AsyncClient(base_url=server.url, timeout=30) as http,
        ):
            worker.faults.append("hang")
            first = asyncio.create_task(http.post("/turns", content=turn.model_dump_json()))
            await until(lambda: len(worker.requests) == 1)
            with pytest.raises(httpx.ReadTimeout):
                await http.post("/turns", content=turn.model_dump_json(), timeout=0.2)
            first.cancel()
            await until(lambda: len(worker.aborted) == 1)
            assert (await http.post("/turns", content=turn.model_dump_json())).status_code == 200
    assert len(worker.requests) == 2


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
