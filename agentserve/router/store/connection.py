"""A connection to a SQLite file, with a thread of its own, which does what it is asked in order."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self, TypeVar

T = TypeVar("T")
BUSY_S = 5.0
"""How long a statement waits for another process that writes."""


class Connection:
    """Raises what sqlite3 raises.

    Each call is one step of the thread. A transaction is one step as well, so it never holds the
    file's lock while the event loop is busy with other things: another process that writes waits
    for a disk at most. What a caller that is cancelled has asked for may be done all the same.
    """

    def __init__(self, thread: ThreadPoolExecutor, db: sqlite3.Connection) -> None:
        self._thread = thread
        self._db = db

    @classmethod
    async def open(cls, path: Path) -> Self:
        thread = ThreadPoolExecutor(1, thread_name_prefix=f"sqlite {path.name}")

        def connect() -> sqlite3.Connection:
            return sqlite3.connect(
                path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
            )

        return cls(thread, await asyncio.get_running_loop().run_in_executor(thread, connect))

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """The result of ``work``, done in one step."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, work, self._db)

    async def transaction(
        self, work: Callable[[sqlite3.Connection], T], *, synced: bool = True
    ) -> T:
        """The result of ``work``, done in a transaction: whole, or not at all when it raises.
        ``synced``: it outlives a power cut, too."""

        def step(db: sqlite3.Connection) -> T:
            db.executescript(_BEGIN[synced])
            try:
                result = work(db)
                db.commit()
            except BaseException:  # whatever it was, the next one begins afresh
                db.rollback()
                raise
            return result

        return await self.run(step)

    async def execute(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """The rows that it gives."""
        return await self.run(lambda db: db.execute(sql, values).fetchall())

    async def close(self) -> None:
        await self.run(lambda db: db.close())
        self._thread.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


_BEGIN = {
    True: "PRAGMA synchronous = FULL; BEGIN IMMEDIATE",
    # a later commit with FULL syncs this one, too: the log is one file
    False: "PRAGMA synchronous = NORMAL; BEGIN IMMEDIATE",
}
