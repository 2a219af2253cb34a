"""A client that goes away while something is done for it."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Any

import pytest

from agentserve.core.leaving import ClientLeft, while_client_waits


class Client:
    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self.watched = 0

    async def receive(self) -> MutableMapping[str, Any]:
        self.watched += 1
        try:
            await self.gone.wait()
        finally:
            self.watched -= 1
        return {"type": "http.disconnect"}


async def unwatched(client: Client) -> None:
    await asyncio.sleep(0)
    assert client.watched == 0
    task = asyncio.current_task()
    assert task is not None and task.cancelling() == 0


async def test_what_is_done_is_answered() -> None:
    client = Client()
    assert await while_client_waits(client.receive, asyncio.sleep(0, "done")) == "done"
    await unwatched(client)


async def test_an_error_is_passed_on() -> None:
    async def fails() -> None:
        raise ValueError("odd")

    client = Client()
    with pytest.raises(ValueError, match="odd"):
        await while_client_waits(client.receive, fails())
    await unwatched(client)


async def test_when_the_client_leaves_the_work_has_ended() -> None:
    client, ended = Client(), []

    async def works() -> None:
        try:
            client.gone.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    with pytest.raises(ClientLeft):
        await while_client_waits(client.receive, works())
    assert ended == [True]
    await unwatched(client)


async def test_work_that_is_too_far_to_stop_is_answered() -> None:
    client = Client()

    async def works() -> str:
        client.gone.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "done"

    assert await while_client_waits(client.receive, works()) == "done"
    await unwatched(client)


@pytest.mark.parametrize("client_leaves", [False, True])
async def test_a_cancelled_request_is_cancelled_and_not_left(client_leaves: bool) -> None:
    client, ended = Client(), []

    async def works() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    request = asyncio.create_task(while_client_waits(client.receive, works()))
    await asyncio.sleep(0.01)
    if client_leaves:
        client.gone.set()
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    assert ended == [True]
    await unwatched(client)
