"""The store in one Redis, which several routers share.

A write is one Lua script: version check, record, turn, events and indexes change together or not at
all. A list of sessions is read by a script as well, so that its records are what the index says.
No call walks more than it returns.

What Redis was told to keep it keeps: ``open`` warns when its settings are weaker than the protocol.
A replica that takes over may lack the last writes, since Redis copies them after it has answered.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Self

from agentserve.core.events import Event
from agentserve.core.plans import Piece, Sha256
from agentserve.core.sessions import Pin, SessionStatus, TurnResult
from agentserve.core.tenants import ApiKey
from agentserve.router.store.base import (
    PIECES,
    EventDraft,
    HeldRecord,
    PassPin,
    PinLoad,
    SessionRecord,
    TurnRecord,
    VersionConflict,
)
from agentserve.router.store.redis_changes import foreign_changes
from agentserve.router.store.redis_checks import check_schema, check_version, loss_warnings
from agentserve.router.store.redis_ledger import RedisLedger
from agentserve.router.store.redis_link import RedisLink
from agentserve.router.store.redis_pins import RedisPins
from agentserve.router.store.redis_scripts import ROOT, Scripts
from agentserve.vision.layouts import LayoutLearner

log = logging.getLogger(__name__)


class RedisStore:
    """Implements router.store.base.Store. Make one by ``await RedisStore.open(url)``.

    Every call but ``changes`` raises StorageFailed when Redis cannot be reached or refuses.
    """

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._scripts = Scripts(link.client)
        self._sender = secrets.token_hex(8)
        self._pins = RedisPins(link, self._scripts)
        self.ledger = RedisLedger(link, self._scripts)

    @classmethod
    async def open(cls, url: str) -> Self:
        """Connect, and check that this Redis will do.

        Raises StorageFailed when it cannot be reached, is too old or has another schema, and
        InvalidRequest for a URL that is none. Logs a warning when it may lose sessions.
        """
        link = RedisLink(url)
        try:
            async with link.reaching() as client:
                await client.ping()
                await check_version(client)
                await check_schema(client, _key("schema"))
                for warning in await loss_warnings(client):
                    log.warning("the Redis store at %s: %s", link.where, warning)
        except BaseException:  # cancellation included: no connection stays open
            await link.close()
            raise
        return cls(link)

    async def close(self) -> None:
        await self._pins.close()
        await self._link.close()

    # sessions

    async def create(
        self,
        record: SessionRecord,
        events: Sequence[EventDraft],
        parent: SessionRecord | None = None,
    ) -> None:
        write = self._write(record, events)
        if parent is not None:
            write["parent"] = {"id": parent.session.id, "version": str(parent.version)}
        if not await self._run("create", json.dumps(write)):
            raise VersionConflict(parent.session.id if parent else record.session.id)

    async def get(self, session_id: str) -> SessionRecord | None:
        async with self._link.reaching() as redis:
            record, version = await redis.hmget(_key("session", session_id), "record", "version")
        return _record(record, version) if record is not None else None

    async def update(
        self,
        record: SessionRecord,
        events: Sequence[EventDraft] = (),
        turn: TurnRecord | None = None,
        *,
        synced: bool = True,
    ) -> SessionRecord:
        """``synced``: what Redis syncs is its own setting."""
        write = self._write(record, events) | {"version": str(record.version)}
        if turn is not None:
            write["turn"] = _turn(turn)
        if not await self._run("update", json.dumps(write)):
            raise VersionConflict(record.session.id)
        return record.model_copy(update={"version": record.version + 1})

    async def delete(self, session_id: str) -> None:
        await self._run("delete", session_id, self._sender)

    async def page(
        self,
        *,
        status: SessionStatus | None,
        before: int | None,
        limit: int,
        tenant: str | None = None,
    ) -> tuple[list[SessionRecord], int | None]:
        index = "sessions" if status is None else f"status:{status.value}"
        if tenant is not None:
            index += f":of:{tenant}"
        highest = "+inf" if before is None else f"({before}"
        more, rows = await self._run("page", index, highest, limit)
        return _records(rows), int(rows[-1][2]) if more else None

    async def due(self, now: float, limit: int) -> list[SessionRecord]:
        return _records(await self._run("due", "due", now, limit))

    async def closed(self, before: float, limit: int) -> list[SessionRecord]:
        return _records(await self._run("due", "closed", f"({before!r}", limit))

    async def counts(self) -> dict[str, int]:
        async with self._link.reaching() as redis, redis.pipeline() as several:
            for status in SessionStatus:
                several.zcard(_key("status", status.value))
            numbers = await several.execute()
        return {
            status.value: number
            for status, number in zip(SessionStatus, numbers, strict=True)
            if number
        }

    # turns and events: streams whose ids are the epoch and the number of the event

    async def turn(self, session_id: str, epoch: int) -> TurnRecord | None:
        async with self._link.reaching() as redis, redis.pipeline() as several:
            several.xrange(_key("turns", session_id), epoch, epoch)
            several.xrange(_key("pieces", session_id), epoch, epoch)
            turns, pieces = await several.execute()
        for (_, turn), (_, its) in zip(turns, pieces, strict=True):
            return TurnRecord(
                epoch=epoch,
                key=turn["key"],
                result=_result(session_id, turn),
                pieces=PIECES.validate_json(its["pieces"]),
            )
        return None

    async def turns(self, session_id: str, start: int, limit: int) -> list[TurnResult]:
        async with self._link.reaching() as redis:
            rows = await redis.xrange(_key("turns", session_id), start, count=limit)
        return [_result(session_id, turn) for _, turn in rows]

    async def transcript(self, session_id: str) -> list[Piece]:
        async with self._link.reaching() as redis:
            rows = await redis.xrange(_key("pieces", session_id))
        return [piece for _, turn in rows for piece in PIECES.validate_json(turn["pieces"])]

    async def held(self, session_id: str) -> HeldRecord | None:
        async with self._link.reaching() as redis:
            held, forked = await redis.hmget(_key("session", session_id), "held", "forked")
        if held is None:
            return None
        record = HeldRecord.model_validate_json(held)
        return record.model_copy(update={"forked": True}) if forked else record

    async def events(self, session_id: str, after: int, limit: int) -> list[Event]:
        async with self._link.reaching() as redis:
            rows = await redis.xrange(_key("events", session_id), after + 1, count=limit)
        return [
            Event(
                session_id=session_id,
                seq=int(place.partition("-")[0]),
                type=event["type"],
                at=event["at"],
                data=json.loads(event["data"]),
            )
            for place, event in rows
        ]

    # pins

    async def pin_loads(self) -> dict[str, PinLoad]:
        async with self._link.reaching() as redis, redis.pipeline() as both:
            both.zrange(_key("pins"), 0, -1, withscores=True)
            both.hgetall(_key("held"))
            numbers, tokens = await both.execute()
        return {worker: PinLoad(int(n), int(tokens[worker])) for worker, n in numbers}

    async def pinned(self, worker_id: str, limit: int, *, but: str = "") -> list[SessionRecord]:
        return _records(await self._run("pinned", worker_id, but, limit))

    async def pass_pin(self, session_id: str) -> PassPin | None:
        return await self._pins.get(session_id)

    async def put_pass_pin(self, pin: PassPin, was: Pin | None) -> PassPin:
        return await self._pins.put(pin, was)

    async def drop_pass_pins(self, used_before: float) -> int:
        return await self._pins.drop(used_before)

    # layouts

    async def layouts(self, surface: Sha256) -> LayoutLearner | None:
        async with self._link.reaching() as redis:
            learner = await redis.hget(_key("layouts"), surface)
        return LayoutLearner.model_validate_json(learner) if learner is not None else None

    async def put_layouts(self, surface: Sha256, learner: LayoutLearner) -> None:
        async with self._link.reaching() as redis:
            await redis.hset(_key("layouts"), surface, learner.model_dump_json())

    # routers

    async def beat(self, router: str, ttl_s: float) -> None:
        await self._run("beat", router, ttl_s)

    async def alive(self) -> set[str]:
        return set(await self._run("alive"))

    async def agree(self, name: str, value: str) -> str:
        async with self._link.reaching() as redis:
            # GET answers what was there before: nothing when this value is the first
            return await redis.set(_key("agreed", name), value, nx=True, get=True) or value

    # keys

    async def put_key(self, key: ApiKey) -> None:
        async with self._link.reaching() as redis:
            await redis.hset(_key("keys"), key.id, key.model_dump_json())

    async def key(self, key_id: str) -> ApiKey | None:
        async with self._link.reaching() as redis:
            record = await redis.hget(_key("keys"), key_id)
        return None if record is None else ApiKey.model_validate_json(record)

    async def keys(self) -> list[ApiKey]:
        async with self._link.reaching() as redis:
            records = await redis.hvals(_key("keys"))
        found = [ApiKey.model_validate_json(record) for record in records]
        return sorted(found, key=lambda key: key.created_at)

    async def drop_key(self, key_id: str) -> bool:
        async with self._link.reaching() as redis:
            return await redis.hdel(_key("keys"), key_id) > 0

    # workers

    async def added_workers(self) -> list[str]:
        async with self._link.reaching() as redis:
            return sorted(await redis.smembers(_key("workers")))

    async def add_worker(self, url: str) -> None:
        async with self._link.reaching() as redis:
            await redis.sadd(_key("workers"), url)

    async def remove_worker(self, url: str) -> bool:
        async with self._link.reaching() as redis:
            return await redis.srem(_key("workers"), url) > 0

    # drains

    async def drains(self) -> dict[str, str]:
        async with self._link.reaching() as redis:
            return await redis.hgetall(_key("drains"))

    async def put_drain(self, worker_id: str, router: str) -> None:
        async with self._link.reaching() as redis:
            await redis.hset(_key("drains"), worker_id, router)

    async def drop_drain(self, worker_id: str) -> None:
        async with self._link.reaching() as redis:
            await redis.hdel(_key("drains"), worker_id)

    def changes(self) -> AsyncIterator[str]:
        return foreign_changes(self._link.client, _key("changes"), self._sender)

    # plumbing

    async def _run(self, script: str, *args: str | int | float) -> Any:
        async with self._link.reaching():
            return await self._scripts.run(script, *args)

    def _write(self, record: SessionRecord, events: Sequence[EventDraft]) -> dict[str, Any]:
        """What create and update send. The token tells the script a write that is repeated after a
        lost answer from another one."""
        session = record.session
        pin = session.pin if record.open else None
        at = datetime.now(UTC).isoformat()
        return {
            "sender": self._sender,
            "token": secrets.token_hex(8),
            "id": session.id,
            "tenant": record.tenant,
            "record": record.model_dump_json(),
            "status": session.status.value,
            "due": "" if session.status is SessionStatus.RUNNING else repr(record.deadline),
            "due_in": "closed" if record.closed else "due",
            "worker": pin.worker_id if pin else "",
            "tokens": str(pin.held_tokens if pin else 0),
            "pinned": f"{pin.worker_id}\0{pin.boot_id}\0{session.id}" if pin else "",
            "events": [
                {"type": event.type.value, "at": at, "data": json.dumps(event.data)}
                for event in events
            ],
        }


def _key(*parts: str) -> str:
    return ":".join((ROOT, *parts))


def _turn(turn: TurnRecord) -> dict[str, str]:
    sent = {
        "epoch": str(turn.epoch),
        "key": turn.key,
        "result": turn.result.model_dump_json(),
        "pieces": PIECES.dump_json(list(turn.pieces)).decode(),
    }
    return sent if turn.held is None else sent | {"held": turn.held.model_dump_json()}


def _result(session_id: str, turn: dict[str, str]) -> TurnResult:
    """The result of a turn. A fork's turns are copies, with their first session's id in them."""
    result = TurnResult.model_validate_json(turn["result"])
    return result.model_copy(update={"session_id": session_id})


def _record(record: str, version: str) -> SessionRecord:
    return SessionRecord.model_validate_json(record).model_copy(update={"version": int(version)})


def _records(rows: Iterable[Sequence[str]]) -> list[SessionRecord]:
    return [_record(record, version) for record, version, _ in rows]
