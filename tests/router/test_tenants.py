"""API keys, and what a tenant sees: its own, and of others' not even that it is there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from agentserve.client import RouterClient
from agentserve.core.errors import Forbidden, Unauthorized, UnknownSession
from agentserve.core.sessions import Session
from agentserve.core.tenants import ApiKey, Role, cache_salt, new_key
from agentserve.router.app import create_app
from agentserve.router.identity import FRESH_S, OPEN_PATHS
from agentserve.testing.worker import FakeWorker

from .rig import Rig, eventually, new_session, picture, running_rig

PUBLIC = "https://docs.example"


@dataclass
class Tenants:
    rig: Rig
    keys: dict[str, tuple[str, ApiKey]]
    clients: dict[str, RouterClient]
    data: Path

    def headers(self, name: str) -> dict[str, str]:
        return {"authorization": f"Bearer {self.keys[name][0]}"}


@pytest.fixture(scope="module")
async def tenants(tmp_path_factory) -> AsyncIterator[Tenants]:
    data = tmp_path_factory.mktemp("tenants")
    made = {
        "one": new_key("one"),
        "two": new_key("two"),
        "root": new_key("ops", Role.ADMIN),
        "old": new_key("one", expires_at=datetime.now(UTC) - timedelta(seconds=1)),
    }
    async with FakeWorker() as worker:
        settings = {"auth": "keys", "public_surfaces": (PUBLIC,)}
        async with running_rig(data, [worker], keys=made, **settings) as rig:
            clients = {
                n: RouterClient(rig.server.url, api_key=text) for n, (text, _) in made.items()
            }
            yield Tenants(rig, made, clients, data)
            for client in clients.values():
                await client.close()


async def refusal(call, error: type[Exception]) -> str:
    with pytest.raises(error) as refused:
        await call
    return refused.value.message


async def test_every_route_needs_a_key(tenants: Tenants):
    for path, methods in create_app(tenants.rig.services.config).openapi()["paths"].items():
        for method in methods:
            filled = path.replace("{session_id}", "s_1").replace("{worker_id}", "w-1")
            filled = filled.replace("{sha256}", "0" * 64)
            answer = await tenants.rig.http.request(method, filled)
            if path in OPEN_PATHS:
                assert answer.status_code == 200, path
                continue
            assert answer.status_code == 401, f"{method} {path}"
            assert answer.headers["www-authenticate"] == "Bearer"
            if method != "head":
                assert answer.json()["code"] == "unauthorized"
                assert answer.json()["request_id"] == answer.headers["x-request-id"]
    assert (await tenants.rig.http.get("/no/such/path")).status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer ask_000000000000_" + "0" * 64},
        {"authorization": "Bearer nonsense"},
        {"authorization": "Basic YTpi"},
        {"authorization": "Bearer"},
        {"x-api-key": "ask_"},
        {"authorization": "Bearer \u00e9".encode("latin-1")},
    ],
)
async def test_what_is_no_key_opens_nothing(tenants: Tenants, headers):
    answer = await tenants.rig.http.get("/v1/sessions", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")


async def test_a_key_with_another_secret_opens_nothing(tenants: Tenants):
    text = tenants.keys["one"][0]
    wrong = text[:-1] + ("0" if text[-1] != "0" else "1")
    answer = await tenants.rig.http.get("/v1/sessions", headers={"x-api-key": wrong})
    assert answer.status_code == 401
    answer = await tenants.rig.http.get("/v1/sessions", headers={"x-api-key": text})
    assert answer.status_code == 200


async def test_an_expired_key_opens_nothing(tenants: Tenants):
    assert "expired" in await refusal(tenants.clients["old"].sessions(), Unauthorized)


async def test_a_revoked_key_is_noticed(tenants: Tenants):
    text, key = new_key("one")
    store = tenants.rig.services.store
    await store.put_key(key)
    async with RouterClient(tenants.rig.server.url, api_key=text) as client:
        await client.sessions()
        await store.drop_key(key.id)

        async def refused() -> bool:
            try:
                await client.sessions()
            except Unauthorized:
                return True
            return False

        await eventually(refused, timeout_s=FRESH_S + 20)


async def played(client: RouterClient, **changes) -> Session:
    session = await client.create_session(new_session(**changes))
    await client.turn(session.id, picture(), epoch=0)
    return session


async def test_no_route_tells_another_tenants_session(tenants: Tenants):
    session = await played(tenants.clients["one"])
    document = create_app(tenants.rig.services.config).openapi()
    routes = [
        (method, path)
        for path, methods in document["paths"].items()
        for method in methods
        if "{session_id}" in path
    ]
    assert len(routes) >= 6
    for name in ("two", "root"):
        for method, path in routes:
            answer = await tenants.rig.http.request(
                method,
                path.replace("{session_id}", session.id),
                headers=tenants.headers(name),
                files={"screenshot": picture()}
                if (method, path[-6:]) == ("post", "/turns")
                else None,
            )
            assert (answer.status_code, answer.json()["code"]) == (404, "unknown_session"), path
            same = await tenants.rig.http.request(
                method, path.replace("{session_id}", "s_none"), headers=tenants.headers(name)
            )
            told = same.json()["message"].replace("s_none", session.id)
            assert answer.json()["message"] == told, "no other words than of one that is not there"
        await refusal(
            tenants.clients[name].create_session(new_session(parent=session.id)), UnknownSession
        )
    assert (await tenants.clients["one"].session(session.id)).turns == 1


async def test_lists_are_of_one_tenant(tenants: Tenants):
    one = await played(tenants.clients["one"])
    two = await played(tenants.clients["two"])
    listed = {s.id for s in (await tenants.clients["two"].sessions(limit=500)).sessions}
    assert two.id in listed
    assert one.id not in listed
    assert (await tenants.clients["root"].sessions()).sessions == []


async def test_sessions_carry_their_tenants_salt(tenants: Tenants):
    worker = tenants.rig.workers[0]
    seen = {}
    for name, surface in (("one", ""), ("two", ""), ("two", PUBLIC), ("one", PUBLIC)):
        session = await played(tenants.clients[name], surface=surface, task="salted")
        seen[name, surface] = (worker.requests[-1]["cache_salt"], session.public)
    assert seen == {
        ("one", ""): (cache_salt("one"), False),
        ("two", ""): (cache_salt("two"), False),
        ("two", PUBLIC): ("", True),
        ("one", PUBLIC): ("", True),
    }


async def test_the_same_prompt_of_another_tenant_finds_nothing(tenants: Tenants):
    create = new_session(task="the very same words")
    found = []
    for name in ("one", "one", "two"):
        client = tenants.clients[name]
        session = await client.create_session(create)
        found.append((await client.turn(session.id, picture(), epoch=0)).usage.cached_tokens)
    assert found[1] > found[0]
    assert found[2] == 0


async def test_the_pass_through_carries_the_salt_and_not_the_key(tenants: Tenants):
    worker = tenants.rig.workers[0]
    chat = {"model": "fake-vl", "messages": [{"role": "user", "content": "x"}]}
    for body in (chat, chat | {"cache_salt": "mine"}, chat | {"cache_salt": cache_salt("two")}):
        answer = await tenants.rig.http.post(
            "/v1/chat/completions", json=body, headers=tenants.headers("one")
        )
        assert answer.status_code == 200
    salts = [request["cache_salt"] for request in worker.requests[-3:]]
    assert salts[0] == cache_salt("one")
    assert len(set(salts)) == 3
    assert cache_salt("two") not in salts
    for heads in worker.headers[-3:]:
        assert tenants.keys["one"][0] not in json.dumps(heads)
        assert "authorization" not in heads


async def test_a_workers_own_authorization_passes_beside_our_key(tenants: Tenants):
    headers = {"x-api-key": tenants.keys["one"][0], "authorization": "Bearer of-the-worker"}
    answer = await tenants.rig.http.post("/generate", json={"text": "x"}, headers=headers)
    assert answer.status_code == 200
    heads = tenants.rig.workers[0].headers[-1]
    assert heads["authorization"] == "Bearer of-the-worker"
    assert "x-api-key" not in heads


async def test_names_of_the_pass_through_are_a_tenants_own(tenants: Tenants):
    session = await played(tenants.clients["one"])
    for name in ("one", "two"):
        headers = tenants.headers(name) | {"x-session-id": "shared-name"}
        assert (
            await tenants.rig.http.post("/generate", json={"text": "x"}, headers=headers)
        ).status_code == 200
    store = tenants.rig.services.store
    assert await store.pass_pin("one/shared-name") is not None
    assert await store.pass_pin("two/shared-name") is not None
    await tenants.clients["one"].release(session.id)
    # to its own tenant the closed session, to another a name like any other
    for name, status in (("one", 409), ("two", 200)):
        headers = tenants.headers(name) | {"x-session-id": session.id}
        answer = await tenants.rig.http.post("/generate", json={"text": "x"}, headers=headers)
        assert answer.status_code == status


async def test_workers_are_the_operators(tenants: Tenants):
    (worker,) = (await tenants.clients["root"].workers()).workers
    (seen,) = (await tenants.clients["one"].workers()).workers
    assert (seen.id, seen.state, seen.report.model) == (
        worker.id, worker.state, worker.report.model,
    )  # fmt: skip
    assert (seen.url, seen.sessions, seen.held_tokens) == ("", 0, 0)
    await refusal(tenants.clients["one"].drain(worker.id), Forbidden)
    await refusal(tenants.clients["one"].undrain(worker.id), Forbidden)
    answer = await tenants.rig.http.get("/server_info", headers=tenants.headers("one"))
    assert answer.json()["code"] == "forbidden"
    assert not (tenants.data / "audit.jsonl").exists()
    await tenants.clients["root"].drain(worker.id)
    await tenants.clients["root"].undrain(worker.id)
    lines = [json.loads(line) for line in (tenants.data / "audit.jsonl").read_text().splitlines()]
    assert [(line["action"], line["target"]) for line in lines] == [
        ("worker.drain", worker.id),
        ("worker.undrain", worker.id),
    ]
    assert {line["key"] for line in lines} == {tenants.keys["root"][1].id}
    assert tenants.keys["root"][0] not in json.dumps(lines)


async def test_a_body_is_not_read_of_who_has_no_key(tenants: Tenants):
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b" " * 65536

    async with httpx.AsyncClient(base_url=tenants.rig.server.url, timeout=20) as http:
        try:
            answer = await http.post("/v1/sessions", content=endless())
        except httpx.TransportError:  # the connection was closed while we sent
            return
        assert answer.status_code == 401


async def test_a_short_body_of_who_has_no_key_does_not_cost_the_connection(tenants: Tenants):
    reader, writer = await asyncio.open_connection("127.0.0.1", tenants.rig.server.port)
    body = b"x" * 50_000
    request = b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    for _ in range(2):
        writer.write(request + body)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
        assert b" 401 " in head and b"connection: close" not in head.lower()
        length = int(head.lower().partition(b"content-length:")[2].split()[0])
        await reader.readexactly(length)
    writer.close()
