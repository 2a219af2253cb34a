"""Pins of the pass-through in Redis. A router keeps those that it has read or written lately:

    router, which keeps a pin ◄── notice of its name ── Redis ◄── another router, which replaces it

A pin that is kept is right until a notice of it comes. Redis sends notices and answers to pings on
one connection in one order, so the answer to a ping shows that all notices before it were heard.
Without one for LEASE_S nothing that is kept counts; once the connection is lost it is forgotten.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time

from redis.asyncio.client import PubSub
from redis.exceptions import RedisError

from agentserve.core.sessions import Pin
from agentserve.router.store.base import PassPin
from agentserve.router.store.pin_cache import PinCache
from agentserve.router.store.redis_link import RedisLink
from agentserve.router.store.redis_scripts import ROOT, Scripts
from agentserve.router.tasks import end

log = logging.getLogger(__name__)
PING_EVERY_S = 1.0
LEASE_S = 3.0
"""Longest time for which the change of a pin that is kept can go unheard."""
RECONNECT_S = 1.0
_PINS, _USED = f"{ROOT}:pass_pins", f"{ROOT}:pass_used"
_DROPPED_AT_ONCE = 1000


class RedisPins:
    """A part of RedisStore. Listens from the first question on."""

    def __init__(self, link: RedisLink, scripts: Scripts) -> None:
        self._link = link
        self._scripts = scripts
        self._cache = PinCache()
        self._right_until = -math.inf
        """By the monotonic clock: how long what is kept counts."""
        self._listener: asyncio.Task[None] | None = None

    async def close(self) -> None:
        if self._listener is not None:
            await end([self._listener])

    async def get(self, name: str) -> PassPin | None:
        if time.monotonic() < self._right_until and (kept := self._cache.get(name)) is not None:
            return kept
        if self._listener is None:
            self._listener = asyncio.create_task(self._listen())
        asked = self._cache.mark(name)
        async with self._link.reaching() as redis, redis.pipeline() as several:
            several.hget(_PINS, name)
            several.zscore(_USED, name)
            pin, used_at = await several.execute()
        if pin is None:
            return None
        found = PassPin(name, Pin.model_validate_json(pin), used_at)
        self._cache.keep(found, asked)
        return found

    async def put(self, pin: PassPin, was: Pin | None) -> PassPin:
        asked = self._cache.mark(pin.session_id)
        before = f"{was.generation} {was.worker_id} {was.boot_id}" if was else ""
        async with self._link.reaching():
            other = await self._scripts.run(
                "put_pass_pin", pin.session_id, pin.pin.model_dump_json(), pin.used_at, before
            )
        if other:
            pin = PassPin(pin.session_id, Pin.model_validate_json(other[0]), float(other[1]))
        self._cache.keep(pin, asked)
        return pin

    async def drop(self, used_before: float) -> int:
        dropped = 0
        while True:
            async with self._link.reaching():
                names = await self._scripts.run("drop_pass_pins", used_before, _DROPPED_AT_ONCE)
            for name in names:  # their notices come later than this answer
                self._cache.changed(name)
            dropped += len(names)
            if len(names) < _DROPPED_AT_ONCE:
                return dropped

    # notices

    async def _listen(self) -> None:
        lost = False
        while True:
            try:
                async with self._link.client.pubsub() as subscription:
                    await subscription.subscribe(_PINS)
                    lost = False
                    await self._hear(subscription)
            except (RedisError, OSError) as error:
                if not lost:  # once, however long it stays away
                    log.warning("pins are read anew for each request, trying again: %s", error)
                lost = True
            finally:
                self._forget()
            await asyncio.sleep(RECONNECT_S)

    async def _hear(self, subscription: PubSub) -> None:
        """Until the connection is lost, which raises."""
        pinged, answered = -math.inf, True
        while True:
            message = await subscription.get_message(timeout=PING_EVERY_S)
            match message and message["type"]:
                case "message":
                    self._cache.changed(message["data"])
                case "pong":
                    answered = True
                    self._right_until = pinged + LEASE_S
                case "subscribe":  # on a new connection: redis-py opens one again by itself
                    pinged, answered = -math.inf, True
                    self._forget()
            now = time.monotonic()
            if not answered and now > pinged + LEASE_S:
                raise ConnectionResetError("no answer to a ping")
            if answered and now > pinged + PING_EVERY_S:
                pinged, answered = now, False
                await subscription.ping()

    def _forget(self) -> None:
        self._right_until = -math.inf
        self._cache.clear()
