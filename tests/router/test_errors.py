"""The one JSON shape: whatever goes wrong, wherever."""

from __future__ import annotations

import re

import httpx
import pytest
from fastapi import FastAPI

from agentserve.core.errors import AgentServeError, by_code
from agentserve.core.logs import About
from agentserve.router.errors import Requests, add_error_handlers
from agentserve.router.metrics import Metrics

from .rig import Rig, new_session, picture

SHAPE = {"code", "message", "hint", "details", "session_id", "request_id"}


def app_raising(error: Exception) -> FastAPI:
    app = FastAPI()
    add_error_handlers(app)
    app.add_middleware(Requests, metrics=Metrics())

    @app.get("/v1/sessions/{session_id}")
    async def fail(session_id: str) -> None:
        raise error

    return app


async def ask(app: FastAPI, **headers: str) -> httpx.Response:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://router") as http:
        return await http.get("/v1/sessions/s_1", headers=headers)


@pytest.mark.parametrize("cls", list(by_code().values()), ids=list(by_code()))
async def test_every_error_has_the_one_shape(cls: type[AgentServeError]):
    error = cls("what", hint="do", details={"epoch": 3}, retry_after=1.2)
    answer = await ask(app_raising(error), **{"X-Request-Id": "mine-1"})
    assert answer.status_code == cls.status
    assert answer.json() == {
        "code": cls.code,
        "message": "what",
        "hint": "do",
        "details": {"epoch": 3},
        "session_id": "s_1",
        "request_id": "mine-1",
    }
    assert answer.headers["x-request-id"] == "mine-1"
    assert answer.headers["retry-after"] == "2"


async def test_an_unforeseen_error_is_told_without_its_text(caplog):
    caplog.handler.addFilter(About())
    answer = await ask(app_raising(RuntimeError("secret path")))
    assert answer.status_code == 500
    body = answer.json()
    assert set(body) == SHAPE and body["code"] == "internal"
    assert "secret" not in answer.text
    assert "secret path" in caplog.text
    (failed,) = [record for record in caplog.records if record.exc_info]
    assert failed.about["request_id"] == body["request_id"]


@pytest.mark.parametrize(
    ("method", "path", "options", "status", "code"),
    [
        ("GET", "/nothing", {}, 404, "unknown_route"),
        ("GET", "/v1/sessions/", {}, 404, "unknown_route"),
        ("PATCH", "/v1/sessions", {}, 405, "method_not_allowed"),
        ("GET", "/generate", {}, 405, "method_not_allowed"),
        ("GET", "/v1/sessions/s_none", {}, 404, "unknown_session"),
        ("GET", "/v1/sessions/s_none/events", {}, 404, "unknown_session"),
        ("POST", "/v1/sessions/s_none/turns", {"files": {"screenshot": b"x"}}, 404, None),
        ("POST", "/v1/sessions/s_none/release", {}, 404, "unknown_session"),
        ("DELETE", "/v1/sessions/s_none", {}, 404, "unknown_session"),
        ("GET", "/v1/sessions?limit=0", {}, 422, "invalid_request"),
        ("GET", "/v1/sessions?status=odd", {}, 422, "invalid_request"),
        ("POST", "/v1/sessions", {"json": {}}, 422, "invalid_request"),
        ("POST", "/v1/sessions", {"content": b"{"}, 422, "invalid_request"),
        ("PUT", "/v1/blobs/xyz", {"content": b"x"}, 422, "invalid_request"),
        ("POST", "/generate", {"headers": {"X-Session-Id": "a b"}}, 422, "invalid_request"),
    ],
)
async def test_what_the_framework_refuses_has_the_shape_too(
    rig: Rig, method, path, options, status, code
):
    answer = await rig.http.request(method, path, **options)
    assert answer.status_code == status
    body = answer.json()
    assert set(body) == SHAPE
    assert body["code"] == (code or "unknown_session")
    assert body["hint"]
    assert body["request_id"] == answer.headers["x-request-id"]
    assert body["session_id"] == ("s_none" if "s_none" in path else None)


async def test_broken_multipart_has_the_shape(rig: Rig):
    session = await rig.client.create_session(new_session())
    answer = await rig.http.post(
        f"/v1/sessions/{session.id}/turns",
        content=b"--x\r\nbroken",
        headers={"content-type": "multipart/form-data; boundary=x"},
    )
    assert 400 <= answer.status_code < 500
    assert set(answer.json()) == SHAPE


async def test_validation_names_the_field_and_hides_the_input(rig: Rig):
    body = new_session().model_dump(mode="json") | {"scale": "secret", "colour": 1}
    answer = (await rig.http.post("/v1/sessions", json=body)).json()
    assert {problem["at"] for problem in answer["details"]["problems"]} == {
        "body.scale",
        "body.colour",
    }
    assert "secret" not in str(answer)


async def test_request_ids_are_kept_when_sane_and_made_otherwise(rig: Rig):
    kept = await rig.http.get("/health", headers={"X-Request-Id": "trace.7"})
    assert kept.headers["x-request-id"] == "trace.7"
    for odd in ("a b", "x" * 129, "<script>"):
        made = (await rig.http.get("/health", headers={"X-Request-Id": odd})).headers
        assert re.fullmatch(r"r_[0-9a-f]{32}", made["x-request-id"])


async def test_a_turns_request_id_is_in_its_event(rig: Rig):
    session = await rig.client.create_session(new_session())
    await rig.http.post(
        f"/v1/sessions/{session.id}/turns",
        files={"screenshot": picture()},
        headers={"X-Request-Id": "turn-9"},
    )
    started = [e for e in await rig.events(session.id) if e.type.value == "turn.started"]
    assert [event.data["request_id"] for event in started] == ["turn-9"]
