"""The body of a pass-through request, in the pieces in which it came."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Self

from agentserve.core.leaving import ClientLeft
from agentserve.router.forwarding import Pieces

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class Body:
    """All of it. It may hold megabytes of pictures: joined for those only who must look into it."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces

    @classmethod
    async def read(cls, receive: Receive) -> Self:
        """Raises ClientLeft."""
        pieces = []
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientLeft
            if piece := message.get("body"):
                pieces.append(piece)
            if not message.get("more_body"):
                return cls(*pieces)

    @property
    def pieces(self) -> Pieces:
        return self._pieces

    def whole(self) -> bytes:
        if len(self._pieces) != 1:
            self._pieces = (b"".join(self._pieces),)
        return self._pieces[0]
