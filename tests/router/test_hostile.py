"""A corpus of hostile input through real HTTP: each refused with the right code, nothing stored."""

from __future__ import annotations

import asyncio
import base64
import gc
import io
import json
import struct
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from agentserve.core.sessions import Session

from .rig import VIEWPORT, Rig, new_session, picture, running_rig

LIMIT = 400_000


@dataclass
class Target:
    rig: Rig
    session: Session
    data: Path

    async def stored(self) -> tuple[Any, ...]:
        """All that an input could have changed."""
        store = self.rig.services.store
        files = sorted(str(path) for path in (self.data / "blobs").rglob("*") if path.is_file())
        return (
            await store.counts(),
            await store.get(self.session.id),
            await store.events(self.session.id, 0, 1000),
            await store.added_workers(),
            await store.drains(),
            files,
        )


@pytest.fixture(scope="module")
async def target(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Target]:
    data = tmp_path_factory.mktemp("hostile")
    async with running_rig(data, max_body_bytes=LIMIT, max_screenshot_bytes=LIMIT // 2) as rig:
        session = await rig.client.create_session(new_session())
        await rig.client.turn(session.id, picture(), epoch=0)
        yield Target(rig, session, data)


# pictures


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, *chunks: bytes, rows: bytes | None = None) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    if rows is None:
        rows = zlib.compress(b"\0" * (height * (1 + 3 * width)))
    start = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + b"".join(chunks)
    return start + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def saved(
    kind: str, size: tuple[int, int] = (VIEWPORT.width, VIEWPORT.height), **how: Any
) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", size, "red").save(out, kind, **how)
    return out.getvalue()


WIDE, HIGH = VIEWPORT.width, VIEWPORT.height
BOMB = zlib.compress(b"\0" * 60_000_000, 9)
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>'
PICTURES = {
    "empty": b"",
    "text": b"hello",
    "a path": b"/etc/passwd",
    "an SVG that names a file": SVG,
    "GIF": saved("GIF"),
    "BMP": saved("BMP"),
    "TIFF": saved("TIFF"),
    "PDF": b"%PDF-1.4\n",
    "PostScript": b"%!PS\n(/etc/passwd) (r) file\n",
    "a PNG's first bytes": b"\x89PNG\r\n\x1a\n",
    "a PNG of 4 Gpx by its header": png(65_535, 65_535, rows=zlib.compress(b"\0")),
    "a PNG with a negative side": png(2**31, 1, rows=zlib.compress(b"\0")),
    "a PNG without pixels": png(WIDE, HIGH, rows=b""),
    "a PNG whose pixels unpack to 60 MB": png(3, 3, rows=BOMB),
    "a PNG with a text bomb": png(WIDE + 1, HIGH, chunk(b"zTXt", b"a\0\0" + BOMB)),
    "a PNG with a profile bomb": png(WIDE + 1, HIGH, chunk(b"iCCP", b"a\0\0" + BOMB)),
    "a PNG with a chunk longer than the file": png(WIDE, HIGH)[:33] + b"\xff\xff\xff\x7fIDATxx",
    "a truncated PNG": picture()[: len(picture()) // 2],
    "a truncated JPEG": picture(kind="JPEG")[:600],
    "a truncated WebP": picture(kind="WEBP")[:60],
    "an animated PNG": saved("PNG", save_all=True, append_images=[Image.new("RGB", (WIDE, HIGH))]),
    "an animated WebP": saved(
        "WEBP", save_all=True, append_images=[Image.new("RGB", (WIDE, HIGH), "blue")]
    ),
    "of another size": saved("PNG", (WIDE, HIGH + 1)),
    "of one pixel": saved("PNG", (1, 1)),
    "over the limit of bytes": picture() + b"\0" * (LIMIT // 2),
}


@pytest.mark.parametrize("data", list(PICTURES.values()), ids=list(PICTURES))
@pytest.mark.parametrize("way", ["multipart", "base64"])
async def test_pictures(target: Target, data: bytes, way: str):
    before = await target.stored()
    path = f"/v1/sessions/{target.session.id}/turns"
    if way == "multipart":
        answer = await target.rig.http.post(path, data={"epoch": "1"}, files={"screenshot": data})
    else:
        body = {"epoch": 1, "screenshot": {"base64": base64.b64encode(data).decode()}}
        answer = await target.rig.http.post(path, json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_screenshot")
    assert await target.stored() == before


# JSON


def turn(**fields: Any) -> bytes:
    good = {"epoch": 1, "screenshot": {"base64": base64.b64encode(picture()).decode()}}
    return json.dumps(good | fields).encode()


def create(**fields: Any) -> bytes:
    return json.dumps(new_session().model_dump(mode="json", exclude_none=True) | fields).encode()


TURN_BODIES = {
    "nothing": b"",
    "half": turn()[:100],
    "null": b"null",
    "a list": b"[]",
    "a number": b"1e999",
    "NaN": turn(epoch=float("nan")),
    "deep": b"[" * 100_000,
    "deep objects": b'{"a":' * 50_000,
    "a number of 100,000 digits": b'{"epoch": ' + b"9" * 100_000 + b"}",
    "an epoch that is a word": turn(epoch="one"),
    "a negative epoch": turn(epoch=-1),
    "a field too many": turn(tenant="other"),
    "UTF-16": turn().decode().encode("utf-16"),
    "bytes that are no UTF-8": turn()[:-1] + b', "instruction": "\xff\xfe"}',
    "a half of a character": turn()[:-1] + rb', "instruction": "\ud800"}',
    "an instruction of a megabyte": turn(instruction="a" * 100_000),
    "an outcome of another kind": turn(outcome={"status": "root"}),
    "both kinds of picture": turn(screenshot={"base64": "aaaa", "blob": "0" * 64}),
    "a blob by a path": turn(screenshot={"blob": "../../../../etc/passwd"}),
    "a blob by a long name": turn(screenshot={"blob": "0" * 63 + "/"}),
    "a pruning of a made-up method": turn(compression={"pruning": {"method": "__class__"}}),
}
BAD, NO_PROGRAM = "invalid_request", "unknown_program"
CREATE_BODIES = {
    "a program by its path": (create(program="../../etc/passwd"), NO_PROGRAM),
    "a program with a null": (create(program="a\0b"), NO_PROGRAM),
    "a program in half a character": (create()[:-1] + rb', "program": "\udfff"}', BAD),
    "half a character in metadata": (create()[:-1] + rb', "metadata": {"\ud800": "x"}}', BAD),
    "a screen of 10^18 pixels": (create(viewport={"width": 10**9, "height": 10**9}), BAD),
    "no screen": (create(viewport={"width": 0, "height": 0}), BAD),
    "a scale of nothing": (create(scale=0), BAD),
    "an endless scale": (create()[:-1] + b', "scale": Infinity}', BAD),
    "a time of years": (create(timeout_s=1e12), BAD),
    "an endless time": (create()[:-1] + b', "timeout_s": 1e999}', BAD),
    "much metadata": (create(metadata=dict.fromkeys(map(str, range(10_000)), "v")), BAD),
    "metadata of lists": (create(metadata={"a": ["b"]}), BAD),
    "a policy that is code": (create(policy="__import__('os')"), BAD),
    "a policy of 10^9 screens": (create(policy="last:9999999999"), BAD),
    "a parent by its path": (create(parent="../s"), BAD),
    "a parent that is none": (create(parent="s_none"), "unknown_session"),
    "an id of its own": (create(id="s_mine"), BAD),
    "a tenant of its own": (create(tenant="other"), BAD),
    "a task of a megabyte": (create(task="a" * 200_000), BAD),
    "a cell of 10^9": (create(policy="mosaic", cell=10**9), BAD),
}  # fmt: skip


@pytest.mark.parametrize("body", list(TURN_BODIES.values()), ids=list(TURN_BODIES))
async def test_bodies_of_turns(target: Target, body: bytes):
    before = await target.stored()
    answer = await target.rig.http.post(
        f"/v1/sessions/{target.session.id}/turns",
        content=body,
        headers={"content-type": "application/json"},
    )
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert await target.stored() == before


@pytest.mark.parametrize(("body", "code"), list(CREATE_BODIES.values()), ids=list(CREATE_BODIES))
async def test_bodies_of_sessions(target: Target, body: bytes, code: str):
    before = await target.stored()
    answer = await target.rig.http.post(
        "/v1/sessions", content=body, headers={"content-type": "application/json"}
    )
    assert answer.json()["code"] == code
    assert answer.status_code in (404, 422)
    assert await target.stored() == before


BASE64 = {
    "a data URL": "data:image/png;base64," + base64.b64encode(picture()).decode(),
    "spaces": base64.b64encode(picture()).decode().replace("A", " A"),
    "the URL alphabet": base64.urlsafe_b64encode(b"\xfb\xff" * 300).decode(),
    "without its padding": base64.b64encode(b"ab" * 101).decode().rstrip("="),
    "letters of elsewhere": "äöü" * 100,
    "nothing": "",
}


@pytest.mark.parametrize("text", list(BASE64.values()), ids=list(BASE64))
async def test_what_is_no_base64(target: Target, text: str):
    before = await target.stored()
    answer = await target.rig.http.post(
        f"/v1/sessions/{target.session.id}/turns", content=turn(screenshot={"base64": text}),
        headers={"content-type": "application/json"},
    )  # fmt: skip
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_screenshot")
    assert await target.stored() == before


# forms


def form(*parts: tuple[str, bytes], boundary: str = "b") -> bytes:
    body = b"".join(
        f"--{boundary}\r\nContent-Disposition: form-data; {head}\r\n\r\n".encode() + data + b"\r\n"
        for head, data in parts
    )
    return body + f"--{boundary}--\r\n".encode()


FILE = 'name="screenshot"; filename="../../etc/passwd"'
MULTIPART = "multipart/form-data; boundary=b"
FORMS = {
    "no boundary": ("multipart/form-data", form((FILE, picture()))),
    "an endless boundary": (f"multipart/form-data; boundary={'b' * 5000}", form((FILE, picture()))),
    "another boundary": ("multipart/form-data; boundary=c", form((FILE, picture()))),
    "no file": (MULTIPART, form(('name="epoch"', b"1"))),
    "text instead of a file": (MULTIPART, form(('name="screenshot"', picture()))),
    "two files": (MULTIPART, form((FILE, picture()), (FILE, picture()))),
    "1,000 fields": (
        MULTIPART, form((FILE, picture()), *((f'name="f{n}"', b"") for n in range(1000)))
    ),
    "a field twice": (
        MULTIPART, form((FILE, picture()), ('name="epoch"', b"1"), ('name="epoch"', b"2"))
    ),
    "an unknown field": (MULTIPART, form((FILE, picture()), ('name="tenant"', b"other"))),
    "a name with a line break": (MULTIPART, form((FILE, picture()), ('name="a\r\nX: y"', b"1"))),
    "an epoch of 100,000 digits": (
        MULTIPART, form((FILE, picture()), ('name="epoch"', b"9" * 100_000))
    ),
    "half JSON": (MULTIPART, form((FILE, picture()), ('name="outcome"', b'{"status": '))),
    "deep JSON": (MULTIPART, form((FILE, picture()), ('name="compression"', b"[" * 50_000))),
    "a part with a head of 100 kB": (MULTIPART, form((FILE + f'; x="{"a" * 100_000}"', b"1"))),
    "XML": ("application/xml", b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>'),
    "nothing said": ("", form((FILE, picture()))),
    "a form of the URL's kind": ("application/x-www-form-urlencoded", b"epoch=1&screenshot=x"),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "body"), list(FORMS.values()), ids=list(FORMS))
async def test_forms(target: Target, kind: str, body: bytes):
    before = await target.stored()
    answer = await target.rig.http.post(
        f"/v1/sessions/{target.session.id}/turns", content=body, headers={"content-type": kind}
    )
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert await target.stored() == before


# paths, queries, headers, and what is no HTTP: written by hand, since clients mend such things

ODD_IDS = [
    "..%2f..%2fetc%2fpasswd", "%2e%2e", "s_%00", "a" * 5000, "%ff%fe", "s_1%0d%0aX-Evil:%20y",
    "'%20OR%201=1--", "{agentserve}:session:s_1", "s_*", "%F0%9F%98%80", ";ls", "$(id)",
]  # fmt: skip


async def sent(target: Target, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of what the router answers to these bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", target.rig.server.port)
    try:
        writer.write(request)
        await writer.drain()
        async with asyncio.timeout(20):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            status, *lines = head.split("\r\n")
            pairs = (line.partition(":") for line in lines if line)
            headers = {name.lower(): value.strip() for name, _, value in pairs}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
    finally:
        writer.close()
    return int(status.split()[1]), headers, body


@pytest.mark.parametrize("odd", ODD_IDS, ids=range(len(ODD_IDS)))
async def test_odd_ids(target: Target, odd: str):
    before = await target.stored()
    for method, path, expected in (
        ("GET", "/v1/sessions/{}", (404,)),
        ("DELETE", "/v1/sessions/{}", (404,)),
        ("POST", "/v1/sessions/{}/release", (404,)),
        ("POST", "/v1/sessions/{}/pause", (404,)),
        ("POST", "/v1/sessions/{}/turns", (404, 422)),
        ("GET", "/v1/sessions/{}/events", (404,)),
        ("GET", "/v1/blobs/{}", (404, 405)),
        ("PUT", "/v1/blobs/{}", (404, 422)),
        ("POST", "/v1/workers/{}/drain", (404,)),
        ("DELETE", "/v1/workers/{}", (404,)),
    ):
        line = f"{method} {path.format(odd)} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
        status, headers, body = await sent(target, line.encode("latin-1"))
        assert status in expected, (method, path, status, body[:200])
        assert "x-evil" not in headers
        assert json.loads(body)["code"] in (
            "unknown_session", "unknown_worker", "unknown_route", "invalid_request",
            "method_not_allowed",
        ), line  # fmt: skip
    assert await target.stored() == before


QUERIES = [
    "limit=0", "limit=501", "limit=-1", "limit=9" + "9" * 5000, "limit=1e3", "cursor=-1",
    "cursor=%00", "cursor=" + "9" * 30, "cursor=1;DROP TABLE sessions", "status=all",
    "status[]=idle", "cursor=\u0661",
]  # fmt: skip


@pytest.mark.parametrize("query", QUERIES, ids=range(len(QUERIES)))
async def test_odd_queries(target: Target, query: str):
    answer = await target.rig.http.get(f"/v1/sessions?{query}")
    if query == "status[]=idle":  # a name that nobody asks for
        assert answer.status_code == 200
        return
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


@pytest.mark.parametrize(
    "value",
    ["a\r\nX-Evil: y", "a\nX-Evil: y", "\x00", "a" * 200, "\u00e4", "a b", "%0d%0aX-Evil: y"],
)
@pytest.mark.parametrize("name", ["X-Request-Id", "X-Session-Id", "Last-Event-ID"])
async def test_headers_are_not_taken_over(target: Target, name: str, value: str):
    before = await target.stored()
    path = "/generate" if name == "X-Session-Id" else f"/v1/sessions/{target.session.id}"
    body = b'{"text": "x"}' if name == "X-Session-Id" else b""
    request = (
        f"{'POST' if body else 'GET'} {path} HTTP/1.1\r\nHost: x\r\n{name}: {value}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode("latin-1") + body
    status, headers, answer = await sent(target, request)
    assert status in (200, 400, 422), answer
    assert "x-evil" not in headers, "one that a client smuggles in is a header of its request only"
    if status != 400:  # that one is no HTTP to the server
        own = value.splitlines()[0] if name == "X-Request-Id" and "X-Evil" in value else ""
        assert headers["x-request-id"].startswith("r_") or headers["x-request-id"] == own
    assert await target.stored() == before


NO_HTTP = [
    b"GET / HTTP/9.9\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET /v1/sessions HTTP/1.1\r\nHost x\r\n\r\n",
    b"GET /v1/sessions HTTP/1.1\r\n" + b"X: " + b"a" * 200_000 + b"\r\n\r\n",
    b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
    b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: abc\r\n\r\n",
    b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /v1/workers HTTP/1.1\r\nHost: x\r\n\r\n",
]


@pytest.mark.parametrize("request_bytes", NO_HTTP, ids=range(len(NO_HTTP)))
async def test_what_is_no_http(target: Target, request_bytes: bytes):
    before = await target.stored()
    try:
        status, _, _ = await sent(target, request_bytes)
        assert 400 <= status < 500
    except (asyncio.IncompleteReadError, ConnectionError):
        pass  # the connection was closed without a word
    assert (await target.rig.client.ready()).status == "ok"
    assert await target.stored() == before


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_form_that_breaks_off(target: Target):
    """Starlette leaves the file to the garbage collector, which says so."""
    before = await target.stored()
    answer = await target.rig.http.post(
        f"/v1/sessions/{target.session.id}/turns",
        content=form((FILE, picture()))[:-8],
        headers={"content-type": MULTIPART},
    )
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    gc.collect()
    assert await target.stored() == before


async def test_a_stale_epoch_of_any_size(target: Target):
    answer = await target.rig.http.post(
        f"/v1/sessions/{target.session.id}/turns", content=turn(epoch=2**70),
        headers={"content-type": "application/json"},
    )  # fmt: skip
    assert (answer.status_code, answer.json()["code"]) == (409, "stale_epoch")


async def test_the_session_goes_on_after_all_of_this(target: Target):
    result = await target.rig.client.turn(target.session.id, picture(), epoch=1)
    assert result.epoch == 1
