"""The OpenAPI document: complete, and its examples are valid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from agentserve.core.config import RouterConfig
from agentserve.core.errors import by_code
from agentserve.core.hosting import ProgramList
from agentserve.core.sessions import Health, Session, SessionCreate, TurnRequest, TurnResult
from agentserve.router.app import create_app
from agentserve.router.errors import ErrorBody

DOCUMENT = create_app(RouterConfig()).openapi()
ROUTES = {
    "POST /v1/sessions", "GET /v1/sessions", "GET /v1/sessions/{session_id}",
    "DELETE /v1/sessions/{session_id}", "POST /v1/sessions/{session_id}/release",
    "POST /v1/sessions/{session_id}/turns", "GET /v1/sessions/{session_id}/turns",
    "GET /v1/sessions/{session_id}/events", "PUT /v1/blobs/{sha256}", "HEAD /v1/blobs/{sha256}",
    "POST /v1/sessions/release", "POST /v1/sessions/{session_id}/pause",
    "POST /v1/sessions/{session_id}/resume", "POST /v1/workers", "DELETE /v1/workers/{worker_id}",
    "GET /v1/workers", "GET /v1/workers/{worker_id}/drain", "POST /v1/workers/{worker_id}/drain",
    "DELETE /v1/workers/{worker_id}/drain", "GET /v1/programs", "GET /health", "GET /ready",
    "GET /metrics",
    "POST /generate", "POST /v1/chat/completions", "GET /v1/models", "GET /model_info",
    "GET /get_model_info", "GET /server_info",
}  # fmt: skip
MODELS: dict[str, type[BaseModel]] = {
    model.__name__: model
    for model in (SessionCreate, Session, TurnRequest, TurnResult, ErrorBody, Health, ProgramList)
}


def operations() -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def examples(content: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """(name of the model, example) of a JSON body."""
    media = content.get("application/json", {})
    name = media.get("schema", {}).get("$ref", "").rpartition("/")[2]
    for example in media.get("examples", {}).values():
        yield name, example["value"]
    if "example" in media:
        yield name, media["example"]


def refs(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from refs(value)
    elif isinstance(node, list):
        for value in node:
            yield from refs(value)


def test_every_route_is_there():
    assert {name for name, _ in operations()} == ROUTES


@pytest.mark.parametrize(("name", "operation"), list(operations()), ids=lambda v: str(v)[:50])
def test_every_route_has_words_and_documented_errors(name, operation):
    assert operation.get("description") or operation.get("summary")
    assert operation["tags"]
    statuses = set(operation["responses"])
    assert {"413", "422", "500"} <= statuses
    assert any(status.startswith("2") for status in statuses)
    for status, response in operation["responses"].items():
        assert response["description"], (name, status)
        if status.isdigit() and status[0] in "45" and name != "GET /ready":
            schema = response["content"]["application/json"]["schema"]
            assert schema == {"$ref": "#/components/schemas/ErrorBody"}, (name, status)


def test_turns_document_every_error_they_can_answer():
    responses = DOCUMENT["paths"]["/v1/sessions/{session_id}/turns"]["post"]["responses"]
    told = " ".join(response["description"] for response in responses.values())
    local = {"bad_request", "unavailable", "engine_mismatch", "browser_failed", "recording_error"}
    elsewhere = {"unknown_program", "unknown_worker", "unknown_route", "method_not_allowed"}
    elsewhere |= {"forbidden", "worker_in_use", "unknown_model"}
    for code in by_code().keys() - local - elsewhere - {"bad_action"}:
        assert f"`{code}`" in told


def test_examples_validate():
    checked = set()
    for _, operation in operations():
        bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
        for body in bodies:
            for model, example in examples(body.get("content", {})):
                MODELS[model].model_validate(example)
                checked.add(model)
    assert checked == {"SessionCreate", "Session", "TurnRequest", "TurnResult", "ErrorBody"}


def test_it_says_how_keys_are_sent():
    assert "security" not in DOCUMENT, "none is needed"
    needed = create_app(RouterConfig(auth="keys")).openapi()
    assert {name for one in needed["security"] for name in one} == set(
        needed["components"]["securitySchemes"]
    )
    open_ones = [
        path for path, of in needed["paths"].items() if of.get("get", {}).get("security") == []
    ]
    assert sorted(open_ones) == ["/health", "/metrics", "/ready"]


def test_no_reference_dangles():
    for ref in refs(DOCUMENT):
        assert ref.removeprefix("#/components/schemas/") in DOCUMENT["components"]["schemas"]
