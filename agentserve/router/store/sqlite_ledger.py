"""The ledger of blobs in the SQLite store."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

from agentserve.core.config import BLOB_USE_EVERY_S
from agentserve.core.plans import Sha256
from agentserve.router.store.ledger import BlobLeaving, BlobName, Claim

Rows = Callable[..., Awaitable[list]]
Write = Callable[..., Awaitable[Any]]


class SqliteLedger:
    """Implements router.store.ledger.BlobLedger with the two connections of the store."""

    def __init__(self, write: Write, rows: Rows) -> None:
        self._write = write
        self._rows = rows

    async def claim(
        self, tenant: str, sizes: Mapping[Sha256, int], quota: int, *, synced: bool = True
    ) -> Claim:
        def claimed(db: sqlite3.Connection) -> Claim:
            rows = db.execute(
                "SELECT sha256, leaving_at FROM blobs"
                f" WHERE tenant = ? AND sha256 IN ({_marks(sizes)})",
                (tenant, *sizes),
            ).fetchall()
            known = {sha256 for sha256, _ in rows}
            if any(leaving_at is not None for _, leaving_at in rows):
                raise BlobLeaving(tenant)
            used = sum(row[0] for row in db.execute(_BYTES, (tenant,)).fetchall())
            new = {sha256: size for sha256, size in sizes.items() if sha256 not in known}
            needed = sum(new.values())
            if new and quota and used + needed > quota:
                return Claim(False, used, needed)
            db.executemany(
                "INSERT INTO blobs (tenant, sha256, size, used_at) VALUES (?, ?, ?, ?)",
                [(tenant, sha256, size, time.time()) for sha256, size in new.items()],
            )
            db.executemany(_USE, [(time.time(), tenant, sha256) for sha256 in known])
            db.execute(
                "INSERT INTO blob_sums (tenant, bytes) VALUES (?, ?)"
                " ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes",
                (tenant, needed),
            )
            return Claim(True, used, needed)

        return await self._write(claimed, synced=synced)

    async def use(self, tenant: str, names: Collection[Sha256]) -> dict[Sha256, int]:
        known = (
            "SELECT sha256, size, used_at FROM blobs WHERE tenant = ? AND leaving_at IS NULL"
            f" AND sha256 IN ({_marks(names)})"
        )
        rows = await self._rows(known, tenant, *names)
        at = time.time()
        if any(used_at < at - BLOB_USE_EVERY_S for _, _, used_at in rows):

            def used(db: sqlite3.Connection) -> list[Any]:
                # once more: what has begun to leave since is lost
                rows = db.execute(known, (tenant, *names)).fetchall()
                db.executemany(_USE, [(at, tenant, sha256) for sha256, _, _ in rows])
                return rows

            rows = await self._write(used)
        return {sha256: size for sha256, size, _ in rows}

    async def used(self, tenant: str) -> int:
        return sum(row[0] for row in await self._rows(_BYTES, tenant))

    async def leave(self, unused_s: float, overdue_s: float, limit: int) -> list[BlobName]:
        at = time.time()

        def begun(db: sqlite3.Connection) -> list[BlobName]:
            rows = [
                *db.execute(
                    "SELECT tenant, sha256 FROM blobs INDEXED BY blobs_leaving"
                    " WHERE leaving_at < ? LIMIT ?",
                    (at - overdue_s, limit),
                ),
                *db.execute(
                    "SELECT tenant, sha256 FROM blobs INDEXED BY blobs_used"
                    " WHERE leaving_at IS NULL AND used_at < ? LIMIT ?",
                    (at - unused_s, limit),
                ),
            ]
            db.executemany(
                "UPDATE blobs SET leaving_at = ? WHERE tenant = ? AND sha256 = ?",
                [(at, *row) for row in rows],
            )
            return [BlobName(*row) for row in rows]

        return await self._write(begun)

    async def drop(self, names: Sequence[BlobName]) -> None:
        def dropped(db: sqlite3.Connection) -> None:
            for name in names:
                rows = db.execute(
                    "DELETE FROM blobs WHERE tenant = ? AND sha256 = ? AND leaving_at IS NOT NULL"
                    " RETURNING size",
                    name,
                ).fetchall()
                for (size,) in rows:
                    db.execute(
                        "UPDATE blob_sums SET bytes = bytes - ? WHERE tenant = ?",
                        (size, name.tenant),
                    )

        await self._write(dropped)


_BYTES = "SELECT bytes FROM blob_sums WHERE tenant = ?"
_USE = "UPDATE blobs SET used_at = max(used_at, ?) WHERE tenant = ? AND sha256 = ?"


def _marks(values: Collection[str]) -> str:
    return ", ".join("?" * len(values))
