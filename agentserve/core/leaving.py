"""A client that goes away while its request is worked on, as ASGI tells it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any, TypeVar

T = TypeVar("T")
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class ClientLeft(Exception):
    """The client has gone before it was answered."""


async def while_client_waits(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, which is cancelled when the client goes away. Raises ClientLeft then.
    ``receive`` is the request's, whose body must have been read."""
    working = asyncio.current_task()
    assert working is not None
    left, before = False, working.cancelling()

    async def watch() -> None:
        nonlocal left
        await _left(receive)
        left = True
        working.cancel()

    watching = asyncio.create_task(watch())
    try:
        return await work
    except asyncio.CancelledError:
        if left and working.cancelling() == before + 1:  # nobody else has cancelled it
            raise ClientLeft from None
        raise
    finally:
        watching.cancel()
        if left:
            working.uncancel()


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
