"""uvicorn's HTTP with a limit on a request's head, which its parser takes at any length."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD = 64 * 1024
"""Bytes of the request line and the headers together."""


class LimitedHttp(HttpToolsProtocol):
    """For ``uvicorn.Config(http=LimitedHttp)``. A head that is longer is answered with 400, and the
    connection closed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._in_head = True
        self._head = 0
        """Of the present request: bytes of its whole lines."""
        self._came = 0
        """Bytes since its head began, as far as they came by themselves."""

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._came += len(data)
        super().data_received(data)
        # a line that never ends is held by the parser
        if self._in_head and self._came > MAX_HEAD and not self.transport.is_closing():
            self._refuse()

    def on_message_begin(self) -> None:
        self._in_head, self._head = True, 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head, self._came = False, 0
        super().on_headers_complete()

    def _count(self, length: int) -> None:
        self._head += length
        if self._head > MAX_HEAD:
            raise ValueError("the head is too long")  # to the parser, which stops, and to uvicorn

    def _refuse(self) -> None:
        self.logger.warning("a request's head is longer than %d bytes", MAX_HEAD)
        self.send_400_response("The request's head is too long.")
