"""What SQLite keeps beside sessions: names of the pass-through, layouts, keys, workers, drains."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from agentserve.core.plans import Sha256
from agentserve.core.sessions import Pin
from agentserve.core.tenants import ApiKey
from agentserve.router.store.base import PassPin
from agentserve.router.store.pin_cache import PinCache
from agentserve.vision.layouts import LayoutLearner

T = TypeVar("T")
_PASS_PIN = "SELECT session_id, pin, used_at FROM pass_pins WHERE session_id = ?"


class SqliteNotes(Protocol):
    """A part of SqliteStore, which has the connections."""

    _pass_pins: PinCache
    """No other process writes them."""

    async def _write(
        self, work: Callable[[sqlite3.Connection], T], *, synced: bool = True
    ) -> T: ...

    async def _rows(self, sql: str, *values: object) -> list: ...

    # names of the pass-through

    async def pass_pin(self, session_id: str) -> PassPin | None:
        if (kept := self._pass_pins.get(session_id)) is not None:
            return kept
        asked = self._pass_pins.mark(session_id)
        for found in _pass_pins(await self._rows(_PASS_PIN, session_id)):
            self._pass_pins.keep(found, asked)
            return found
        return None

    async def put_pass_pin(self, pin: PassPin, was: Pin | None) -> PassPin:
        def put(db: sqlite3.Connection) -> PassPin:
            for stored in _pass_pins(db.execute(_PASS_PIN, (pin.session_id,))):
                if stored.pin not in (was, pin.pin):
                    return stored
            db.execute(
                "INSERT OR REPLACE INTO pass_pins (session_id, pin, used_at) VALUES (?, ?, ?)",
                (pin.session_id, pin.pin.model_dump_json(), pin.used_at),
            )
            return pin

        try:
            stands = await self._write(put)
        finally:  # for those who are reading the last one; after a cancellation, too
            self._pass_pins.changed(pin.session_id)
        self._pass_pins.keep(stands, self._pass_pins.mark(pin.session_id))
        return stands

    async def drop_pass_pins(self, used_before: float) -> int:
        dropped = await self._changed(
            "DELETE FROM pass_pins WHERE used_at < ? RETURNING session_id", used_before
        )
        for (session_id,) in dropped:
            self._pass_pins.changed(session_id)
        return len(dropped)

    # layouts

    async def layouts(self, surface: Sha256) -> LayoutLearner | None:
        rows = await self._rows("SELECT learner FROM layouts WHERE surface = ?", surface)
        return LayoutLearner.model_validate_json(rows[0][0]) if rows else None

    async def put_layouts(self, surface: Sha256, learner: LayoutLearner) -> None:
        # the next turn's write need not wait for the disk: what is lost is seen again
        await self._changed(
            "INSERT OR REPLACE INTO layouts (surface, learner) VALUES (?, ?)",
            surface,
            learner.model_dump_json(),
            synced=False,
        )

    # keys

    async def put_key(self, key: ApiKey) -> None:
        await self._changed(
            "INSERT INTO keys (id, record) VALUES (?, ?)"
            " ON CONFLICT (id) DO UPDATE SET record = excluded.record",
            key.id,
            key.model_dump_json(),
        )

    async def key(self, key_id: str) -> ApiKey | None:
        rows = await self._rows("SELECT record FROM keys WHERE id = ?", key_id)
        return ApiKey.model_validate_json(rows[0][0]) if rows else None

    async def keys(self) -> list[ApiKey]:
        rows = await self._rows("SELECT record FROM keys ORDER BY n")
        return [ApiKey.model_validate_json(row[0]) for row in rows]

    async def drop_key(self, key_id: str) -> bool:
        return bool(await self._changed("DELETE FROM keys WHERE id = ? RETURNING id", key_id))

    # workers

    async def added_workers(self) -> list[str]:
        return [row[0] for row in await self._rows("SELECT url FROM workers ORDER BY url")]

    async def add_worker(self, url: str) -> None:
        await self._changed("INSERT OR IGNORE INTO workers VALUES (?)", url)

    async def remove_worker(self, url: str) -> bool:
        return bool(await self._changed("DELETE FROM workers WHERE url = ? RETURNING url", url))

    # drains

    async def drains(self) -> dict[str, str]:
        return dict(await self._rows("SELECT worker_id, router FROM drains"))

    async def put_drain(self, worker_id: str, router: str) -> None:
        await self._changed("INSERT OR REPLACE INTO drains VALUES (?, ?)", worker_id, router)

    async def drop_drain(self, worker_id: str) -> None:
        await self._changed("DELETE FROM drains WHERE worker_id = ?", worker_id)

    # plumbing

    async def _changed(self, sql: str, *values: object, synced: bool = True) -> list[Any]:
        """The rows that a statement returns, which is a transaction of its own."""
        return await self._write(lambda db: db.execute(sql, values).fetchall(), synced=synced)


def _pass_pins(rows: Iterable) -> list[PassPin]:
    return [PassPin(name, Pin.model_validate_json(pin), used_at) for name, pin, used_at in rows]
