"""What the router's benchmarks compute, and what they read, on their own."""

from __future__ import annotations

import json

import pytest

from agentserve.bench.router.bodies import compare
from agentserve.bench.router.figures import median_difference, median_ratio, percentile
from agentserve.bench.router.load import is_whole, post
from agentserve.bench.router.sink import Sink
from agentserve.bench.router.streams import error_in


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert [percentile(values, share) for share in (0, 0.5, 0.99, 1)] == [1, 50, 99, 100]
    assert percentile([7.0], 0.99) == 7


def test_rounds_are_compared_each_with_its_own_baseline() -> None:
    # the machine was three times as slow in the second round
    ours, direct = [3.0, 9.0, 4.0], [1.0, 3.0, 1.0]
    assert median_difference(ours, direct) == 3
    assert median_ratio(ours, direct) == 3
    with pytest.raises(ValueError):
        median_ratio(ours, direct[:2])


def test_what_of_a_request_did_not_arrive() -> None:
    sent = b'{"a": 1, "user" : "x", "top_p": 0.5}'
    headers = {"x-one": "1", "x-two": "2", "x-three": "3"}
    got = json.dumps({"a": 1, "top_p": 1.0, "stream": False}).encode()
    kept = compare(sent, headers, got, {"x-one": "1", "x-two": "other"})
    assert (kept.identical, kept.lost_fields, kept.added_fields) == (
        False,
        ["user", "top_p"],
        ["stream"],
    )
    assert kept.lost_headers == ["x-two", "x-three"]
    assert compare(sent, headers, sent, headers | {"more": "1"}).identical
    respaced = compare(sent, {}, sent.replace(b" ", b""), {})
    assert (respaced.identical, respaced.lost_fields) == (False, [])


@pytest.mark.parametrize(
    ("event", "error"),
    [
        ("[DONE]", None),
        ('{"choices": []}', None),
        ('{"error": {"code": "worker_lost", "message": "m"}}', "worker_lost"),
        ('{"error": {"code": null, "type": "stream_error"}}', "stream_error"),
        ('{"error": "gone"}', "gone"),
    ],
)
def test_what_an_event_tells_of_an_error(event: str, error: str | None) -> None:
    assert error_in(event) == error


@pytest.mark.parametrize(
    ("response", "whole"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", True),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab", False),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n", False),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n", False),
    ],
)
def test_when_a_response_is_whole(response: bytes, whole: bool) -> None:
    assert is_whole(response) is whole


class _Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)


@pytest.mark.parametrize("size", [1, 2, 7, 50, 10_000])
def test_the_sink_answers_each_request_however_it_is_cut(size: int) -> None:
    plain = post("http://x", "/generate", {"x-a": "1"}, b"hello\r\n\r\n")
    head = b"POST /v1 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunked = head + b"5\r\nhello\r\n1;x=y\r\n!\r\n0\r\n\r\n"
    page = b"GET /health?deep=1 HTTP/1.1\r\nhost: x\r\n\r\n"
    unknown = b"GET /nothing HTTP/1.1\r\nhost: x\r\n\r\n"
    sent = plain + chunked + page + plain + unknown + chunked + page
    wire, sink = _Wire(), Sink()
    sink.connection_made(wire)  # type: ignore[arg-type]
    for at in range(0, len(sent), size):
        sink.data_received(sent[at : at + size])
    answers = [b"click" in one if b"200 OK" in one else None for one in wire.written]
    assert answers == [True, True, False, True, None, True, False]
