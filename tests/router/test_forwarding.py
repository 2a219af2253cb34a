"""The pass-through's client against servers that say exactly what a test wants."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest
import trustme
from hypothesis import given, settings
from hypothesis import strategies as st

from agentserve.core.errors import InvalidRequest
from agentserve.router.forwarding import Forwarded, Forwarder, Lost, Silent, forwarder
from agentserve.router.forwarding.connection import LONGEST_HEAD, MOST_WAITING

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"


class Scripted:
    """A server whose connections are counted, and say what they are told to."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self.url = ""
        self.opened = 0
        self.open = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        self.open += 1
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._serve(reader, writer)
        finally:
            self.open -= 1
            writer.transport.abort() if writer.is_closing() else writer.close()


@asynccontextmanager
async def serving(
    serve: Serve, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[Scripted]:
    scripted = Scripted(serve)
    server = await asyncio.start_server(scripted, host, 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    scripted.url = f"http{'s' if tls else ''}://{f'[{host}]' if ':' in host else host}:{port}"
    async with server:
        yield scripted


def saying(*answers: bytes, then_close: bool = False, piece: int = 0) -> Serve:
    """One of the answers to each request, in order, the last again and again."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = list(answers)
        while True:
            await request(reader)
            answer = left.pop(0) if len(left) > 1 else left[0]
            for start in range(0, len(answer), piece or len(answer)):
                writer.write(answer[start : start + (piece or len(answer))])
                await writer.drain()
                if piece:
                    await asyncio.sleep(0)
            if then_close:
                return

    return serve


async def request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Head and body of the next request."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"content-l")),
        0,
    )
    return head, await reader.readexactly(length)


@asynccontextmanager
async def client(silence_s: float = 20.0) -> AsyncIterator[Forwarder]:
    made = Forwarder(silence_s)
    try:
        yield made
    finally:
        made.close()


async def send(made: Forwarder, scripted: Scripted, *body: bytes) -> Forwarded:
    headers = [(b"host", b"x"), (b"content-length", b"%d" % sum(map(len, body)))]
    return await made.send("POST", scripted.url, "/generate?a=%20", headers, body)


async def whole(answer: Forwarded) -> bytes:
    return b"".join([chunk async for chunk in answer.chunks()])


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not true():  # noqa: ASYNC110 -- what servers and sockets do has no event
            await asyncio.sleep(0.005)


async def test_a_request_is_sent_as_it_is() -> None:
    seen: list[tuple[bytes, bytes]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await request(reader))
        writer.write(b"HTTP/1.1 200 OK\r\nX-Odd: \xff\r\nX-Odd: 2\r\nContent-Length: 2\r\n\r\nhi")
        await writer.drain()
        await reader.read()

    async with serving(serve) as scripted, client() as made:
        headers = [(b"Host", b"x"), (b"x-odd", b"J\xf6rg"), (b"content-length", b"6")]
        parts = (b"ab", memoryview(b"cdef"))
        answer = await made.send("POST", scripted.url + "/base/", "/p?a=%20&a", headers, parts)
        assert await whole(answer) == b"hi"
    head = (
        b"POST /base/p?a=%20&a HTTP/1.1\r\nHost: x\r\nx-odd: J\xf6rg\r\ncontent-length: 6\r\n\r\n"
    )
    assert seen == [(head, b"abcdef")]
    assert answer.status_code == 200
    assert answer.headers == [(b"X-Odd", b"\xff"), (b"X-Odd", b"2"), (b"Content-Length", b"2")]
    assert (answer.header(b"x-odd"), answer.header(b"none")) == (b"\xff", None)


CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3;ext=1\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nX-Trailer: 1\r\n\r\n"
)


@pytest.mark.parametrize("piece", [0, 1, 7])
@pytest.mark.parametrize(
    ("answer", "status", "body"),
    [
        (OK, 200, b"hi"),
        (CHUNKED, 200, b"abc0123456789abcdef"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n", 304, b""),
        (b"HTTP/1.1 500 Odd\r\ncontent-length: 0\r\n\r\n", 500, b""),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, 200, b"hi"),
        (b"HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n" + CHUNKED, 200, b"abc0123456789abcdef"),
    ],
)
async def test_answers_are_read_and_connections_kept(
    answer: bytes, status: int, body: bytes, piece: int
) -> None:
    async with serving(saying(answer, piece=piece)) as scripted, client() as made:
        for _ in range(3):
            got = await send(made, scripted, b"x")
            assert (got.status_code, await whole(got)) == (status, body)
            assert got.header(b"link") is None
        assert scripted.opened == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi",
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nhi",
    ],
)
async def test_a_connection_that_the_worker_closes_is_not_kept(answer: bytes) -> None:
    async with serving(saying(answer)) as scripted, client() as made:
        for _ in range(2):
            assert await whole(await send(made, scripted)) == b"hi"
        assert scripted.opened == 2
        await until(lambda: scripted.open == 0)


@pytest.mark.parametrize("piece", [0, 3])
async def test_a_body_may_end_with_its_connection(piece: int) -> None:
    answer = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: 1\n\n"
    async with serving(saying(answer, then_close=True, piece=piece)) as scripted, client() as made:
        assert await whole(await send(made, scripted)) == b"data: 1\n\n"


@given(st.lists(st.integers(1, len(CHUNKED) - 1), max_size=6), st.booleans())
@settings(max_examples=40, deadline=None)
def test_however_it_is_cut(cuts: list[int], interim: bool) -> None:
    answer = (b"HTTP/1.1 100 Continue\r\n\r\n" if interim else b"") + CHUNKED
    ends = sorted({*cuts, len(answer)})

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await request(reader)
            for start, end in zip([0, *ends], ends, strict=False):
                writer.write(answer[start:end])
                await writer.drain()
                await asyncio.sleep(0)

    async def run() -> None:
        async with serving(serve) as scripted, client() as made:
            for _ in range(2):
                assert await whole(await send(made, scripted)) == b"abc0123456789abcdef"
            assert scripted.opened == 1

    asyncio.run(run())


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "broke off"),
        (b"HTTP/1.1 200 OK\r\ncontent-le", "broke off"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", "HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nhi", "HTTP/1.1"),
        (b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", "HTTP"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * (LONGEST_HEAD + 10), "head"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * (LONGEST_HEAD // 6 + 10), "head"),
    ],
)
async def test_what_is_no_answer_is_a_loss(answer: bytes, words: str) -> None:
    async with serving(saying(answer, then_close=True)) as scripted, client() as made:
        with pytest.raises(Lost, match=words) as lost:
            await send(made, scripted)
        assert not lost.value.kept
        await until(lambda: scripted.open == 0)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\nzz\r\n",
    ],
)
async def test_an_answer_that_breaks_off_is_a_loss(answer: bytes) -> None:
    async with serving(saying(answer, then_close=True)) as scripted, client() as made:
        got = await send(made, scripted)
        read = []
        with pytest.raises(Lost) as lost:
            async for chunk in got.chunks():
                read.append(chunk)
        assert b"".join(read) in (b"", b"hi") and not lost.value.kept


async def test_nobody_listens() -> None:
    async with serving(saying(OK)) as scripted:
        pass
    async with client() as made:
        with pytest.raises(Lost) as lost:
            await send(made, scripted)
        assert not lost.value.kept


async def test_a_kept_connection_that_breaks_is_told_apart() -> None:
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(OK)
        await request(reader)  # and closes without a word

    async with serving(once) as scripted, client() as made:
        assert await whole(await send(made, scripted)) == b"hi"
        with pytest.raises(Lost) as lost:
            await send(made, scripted)
        assert lost.value.kept
        assert await whole(await send(made, scripted)) == b"hi"


async def test_a_kept_connection_that_was_closed_meanwhile_is_not_taken() -> None:
    async with serving(saying(OK, then_close=True)) as scripted, client() as made:
        for _ in range(3):
            assert await whole(await send(made, scripted)) == b"hi"
            await until(lambda: scripted.open == 0)
            await asyncio.sleep(0.01)  # its end arrives here as well
        assert scripted.opened == 3


@pytest.mark.parametrize("unasked", [b"x", OK])
async def test_what_comes_unasked_ends_the_connection(unasked: bytes) -> None:
    async with serving(saying(OK + unasked)) as scripted, client() as made:
        assert await whole(await send(made, scripted)) == b"hi"
        await until(lambda: scripted.open == 0)
        assert await whole(await send(made, scripted)) == b"hi"


async def test_idle_connections_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarder, "KEEP_CONNECTION_S", 0.05)
    async with serving(saying(OK)) as scripted, client() as made:
        await whole(await send(made, scripted))
        await until(lambda: scripted.opened == 1 and scripted.open == 0)


async def test_requests_at_once_have_connections_of_their_own() -> None:
    running = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await request(reader)
            await running.wait()
            writer.write(OK)

    async with serving(serve) as scripted, client() as made:
        asked = [asyncio.create_task(send(made, scripted)) for _ in range(5)]
        await until(lambda: scripted.open == 5)
        running.set()
        assert [await whole(await one) for one in asked] == [b"hi"] * 5
        for _ in range(5):
            await whole(await send(made, scripted))
        assert scripted.opened == 5
    await until(lambda: scripted.open == 0)


async def test_an_answer_is_given_up_by_closing_it() -> None:
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nbegun"
    async with serving(saying(answer)) as scripted, client() as made:
        got = await send(made, scripted)
        async for chunk in got.chunks():
            assert chunk == b"begun"
            break
        got.close()
        await until(lambda: scripted.open == 0)


async def test_an_answer_that_nobody_read_does_not_reach_the_next() -> None:
    async with serving(saying(OK)) as scripted, client() as made:
        (await send(made, scripted)).close()
        assert await whole(await send(made, scripted)) == b"hi"


async def test_one_who_is_cancelled_gives_the_request_up() -> None:
    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        await reader.read()

    async with serving(hang) as scripted, client() as made:
        asking = asyncio.create_task(send(made, scripted))
        await until(lambda: scripted.open == 1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await until(lambda: scripted.open == 0)


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhi"])
async def test_silence(begun: bytes) -> None:
    async def stall(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(begun)
        await reader.read()

    async with serving(stall) as scripted, client(silence_s=0.1) as made:
        with pytest.raises(Silent, match="0.1 s"):
            await whole(await send(made, scripted))
        await until(lambda: scripted.open == 0)


async def test_words_now_and_then_are_no_silence() -> None:
    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n")
        for _ in range(8):
            await asyncio.sleep(0.1)
            writer.write(b"x")

    async with serving(slow) as scripted, client(silence_s=0.5) as made:
        assert await whole(await send(made, scripted)) == b"x" * 8


async def test_a_slow_reader_stops_the_worker_and_is_no_silence() -> None:
    total = 64 * MOST_WAITING
    sent = 0

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % total)
        while sent < total:
            writer.write(bytes(MOST_WAITING))
            await writer.drain()
            sent += MOST_WAITING

    async with serving(pour) as scripted, client(silence_s=0.2) as made:
        got = await send(made, scripted)
        before = -1
        while before != sent:  # until nothing moves, for longer than a worker may be silent
            before = sent
            await asyncio.sleep(0.5)
        assert sent < total / 2
        read = 0
        async for chunk in got.chunks():
            read += len(chunk)
        assert read == total


async def test_a_large_body_to_a_slow_worker() -> None:
    body = bytes(range(256)) * 40_000

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.2)
        _, received = await request(reader)
        answer = b"same" if received == body else b"else"
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n" + answer)
        await writer.drain()

    async with serving(slow) as scripted, client() as made:
        got = await send(made, scripted, body[:100], body[100:])
        assert await whole(got) == b"same"


async def test_an_answer_before_the_body_was_read_is_an_answer() -> None:
    refusal = b"HTTP/1.1 413 Too Large\r\nconnection: close\r\ncontent-length: 3\r\n\r\nbig"

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(refusal)
        await writer.drain()
        await reader.read()

    async with serving(refuse) as scripted, client() as made:
        got = await send(made, scripted, bytes(32_000_000))
        assert (got.status_code, await whole(got)) == (413, b"big")
        await until(lambda: scripted.open == 0)


async def test_ipv6() -> None:
    async with serving(saying(OK), host="::1") as scripted, client() as made:
        assert await whole(await send(made, scripted)) == b"hi"


async def test_tls_with_a_certificate_that_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    async with serving(saying(OK), tls=tls) as scripted, client() as made:
        with pytest.raises(Lost, match="(?i)certificate"):
            await send(made, scripted)
        trusting = ssl.create_default_context()
        authority.configure_trust(trusting)
        monkeypatch.setattr(forwarder, "_certificates", lambda: trusting)
        assert await whole(await send(made, scripted)) == b"hi"


@pytest.mark.parametrize(
    "header", [(b"x", b"1\r\ny: 2"), (b"x", b"1\ny: 2"), (b"x\r", b"1"), (b"x", b"1\r")]
)
async def test_a_header_with_a_line_break_is_refused(header: tuple[bytes, bytes]) -> None:
    async with serving(saying(OK)) as scripted, client() as made:
        with pytest.raises(InvalidRequest, match="line break"):
            await made.send("GET", scripted.url, "/", [(b"host", b"x"), header])
        assert scripted.opened == 0
