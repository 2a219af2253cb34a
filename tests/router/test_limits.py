"""Bodies over the limit are refused before they are read whole."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from agentserve.testing.server import LoopbackServer

from .records import record
from .rig import Rig, new_session, running_rig

LIMIT = 200_000


@pytest.fixture(scope="module")
async def tight(tmp_path_factory) -> AsyncIterator[Rig]:
    async with running_rig(tmp_path_factory.mktemp("tight"), [], max_body_bytes=LIMIT) as rig:
        await rig.services.store.create(record("s_1"), [])
        yield rig


async def raw(server: LoopbackServer, head: bytes, body: bytes) -> tuple[int, dict, bool]:
    """Send bytes; status, JSON body, and whether the server then closed the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(head + body)
    await writer.drain()
    answer = await asyncio.wait_for(reader.read(), 10)  # until the server closes
    writer.close()
    header, _, content = answer.partition(b"\r\n\r\n")
    return int(header.split()[1]), json.loads(content), b"connection: close" in header.lower()


@pytest.mark.parametrize(
    "path", ["/v1/sessions", "/v1/sessions/s_1/turns", f"/v1/blobs/{'0' * 64}", "/generate"]
)
async def test_a_declared_length_over_the_limit_is_refused_unread(tight: Rig, path):
    method = "PUT" if "blobs" in path else "POST"
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Content-Length: {LIMIT + 1}\r\n\r\n"
    )
    status, body, closed = await raw(tight.server, head.encode(), b"")  # not a byte of the body
    assert (status, body["code"], closed) == (413, "body_too_large", True)
    assert body["details"] == {"max_bytes": LIMIT}


@pytest.mark.parametrize(
    ("path", "content_type"),
    [
        ("/v1/sessions", "application/json"),
        ("/v1/sessions/s_1/turns", "application/json"),
        ("/v1/sessions/s_1/turns", "multipart/form-data; boundary=b"),
        ("/generate", "application/json"),
    ],
)
async def test_a_body_without_a_length_is_counted(tight: Rig, path, content_type):
    head = (
        f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {content_type}\r\n"
        "Transfer-Encoding: chunked\r\n\r\n"
    )
    part = b'--b\r\nContent-Disposition: form-data; name="screenshot"; filename="a"\r\n\r\n'
    data = (part if "multipart" in content_type else b'"') + b"a" * LIMIT
    chunk = f"{len(data):x}\r\n".encode() + data + b"\r\n"  # and never a last one
    status, body, closed = await raw(tight.server, head.encode(), chunk)
    assert (status, body["code"], closed) == (413, "body_too_large", True)


async def test_a_body_at_the_limit_is_read(tight: Rig):
    task = new_session().model_dump_json().encode()
    answer = await tight.http.post(
        "/v1/sessions",
        content=task + b" " * (LIMIT - len(task)),
        headers={"content-type": "application/json"},
    )
    assert answer.json()["code"] == "no_worker"
