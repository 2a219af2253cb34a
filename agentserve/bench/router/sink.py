"""A worker that costs next to nothing: ``python -m agentserve.bench.router.sink PORT``.

It reads a request to its end without keeping it and answers the same chat completion at once, so
that what is measured in front of it is the router. It shows the few read-only pages that routers
ask before they use a worker.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from typing import Any, cast

import uvloop

MODEL = "bench"
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked", re.IGNORECASE)
_END = b"\r\n\r\n"


def _response(body: Any, status: bytes = b"200 OK") -> bytes:
    text = json.dumps(body).encode()
    head = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % (status, len(text)) + text


_INFO = {
    "model_path": MODEL,
    "served_model_name": MODEL,
    "is_generation": True,
    "model_type": "qwen2_5_vl",
    "version": "0.5.23",
}
_PAGES = {
    b"/health": _response({}),
    b"/v1/models": _response(
        {"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "sglang"}]}
    ),
    b"/model_info": _response(_INFO),
    b"/get_model_info": _response(_INFO),
    b"/server_info": _response(_INFO),
    b"/get_server_info": _response(_INFO),
}
_UNKNOWN = _response({"error": {"message": "not found"}}, b"404 Not Found")
_ANSWER = _response(
    {
        "id": "chatcmpl-bench",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "click 10 10"},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
    }
)


class Sink(asyncio.Protocol):
    """One connection. Of what arrives, only an unfinished line or head is kept."""

    def __init__(self) -> None:
        self._kept = b""
        self._missing = 0
        """Bytes of the body, or of its chunk, still to come."""
        self._chunked = False
        self._answer: bytes | None = None
        """Of the request whose body arrives."""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        while True:
            taken = min(self._missing, len(data))
            self._missing -= taken
            data = self._kept + data[taken:]
            self._kept = b""
            if self._missing:
                return
            if self._answer is None:
                head, end, data = data.partition(_END)
                if end:
                    self._begin(head)
            elif self._chunked:
                line, end, data = data.partition(b"\r\n")
                if end:
                    size = int(line.partition(b";")[0], 16)
                    self._missing = size + 2  # the line's end behind the chunk
                    self._chunked = size > 0
            else:
                self._transport.write(self._answer)
                self._answer, end = None, b" "
            if not end:
                self._kept = head if self._answer is None else line
                return

    def _begin(self, head: bytes) -> None:
        method, path, _ = head.split(b" ", 2)
        page = _PAGES.get(path.partition(b"?")[0], _UNKNOWN)
        self._answer = _ANSWER if method == b"POST" else page
        self._chunked = _CHUNKED.search(head) is not None
        length = _LENGTH.search(head)
        self._missing = int(length[1]) if length and not self._chunked else 0


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Sink, "127.0.0.1", port, backlog=512)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1])))
