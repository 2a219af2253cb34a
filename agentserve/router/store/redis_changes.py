"""What other routers change, as Redis tells it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.exceptions import RedisError

log = logging.getLogger(__name__)
QUIET_S = 10.0
"""After this long without a message the connection is tried with a ping."""
RECONNECT_S = 1.0


async def foreign_changes(client: Redis, channel: str, sender: str) -> AsyncIterator[str]:
    """Ids of the sessions that others than ``sender`` changed, without end. What happens while the
    connection is lost is not told."""
    lost = False
    while True:
        try:
            async with client.pubsub() as subscription:
                await subscription.subscribe(channel)
                lost = False
                while True:
                    origin, _, session_id = (await _message(subscription)).partition(" ")
                    if origin != sender:
                        yield session_id
        except (RedisError, OSError) as error:
            if not lost:  # once, however long it stays away
                log.warning("changes by other routers are not heard, trying again: %s", error)
            lost = True
            await asyncio.sleep(RECONNECT_S)


async def _message(subscription: PubSub) -> str:
    """What is published next. A peer that has vanished without a word would be waited for in vain:
    hence the ping, which must be answered."""
    pinged = False
    while True:
        message = await subscription.get_message(timeout=QUIET_S)
        if message is None:
            if pinged:
                raise ConnectionResetError("no answer to a ping")
            await subscription.ping()
        elif message["type"] == "message":
            return message["data"]
        pinged = message is None
