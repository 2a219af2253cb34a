"""A connection to a SQLite file, with a thread of its own, which does what it is asked in order."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self, TypeVar

T = TypeVar("T")


class Connection:
    """Transactions are begun and ended by who wants them. Raises what sqlite3 raises.

    Each call is one step of the thread, and a step costs about as much as a small statement: what
    belongs together is best done in one, by ``run``. What a caller that is cancelled has asked for
    may be done all the same.
    """

    def __init__(self, thread: ThreadPoolExecutor, db: sqlite3.Connection) -> None:
        self._thread = thread
        self._db = db

    @classmethod
    async def open(cls, path: Path) -> Self:
        thread = ThreadPoolExecutor(1, thread_name_prefix=f"sqlite {path.name}")

        def connect() -> sqlite3.Connection:
            return sqlite3.connect(path, isolation_level=None, check_same_thread=False)

        return cls(thread, await asyncio.get_running_loop().run_in_executor(thread, connect))

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """The result of ``work``, done in one step."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, work, self._db)

    async def execute(self, sql: str, values: Sequence[Any] = ()) -> int:
        """How many rows it changed."""
        return await self.run(lambda db: db.execute(sql, values).rowcount)

    async def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        await self.run(lambda db: db.executemany(sql, rows))

    async def execute_fetchall(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        return await self.run(lambda db: db.execute(sql, values).fetchall())

    async def commit(self) -> None:
        await self.run(lambda db: db.commit())

    async def rollback(self) -> None:
        """Nothing when no transaction has begun."""
        await self.run(lambda db: db.rollback())

    async def close(self) -> None:
        await self.run(lambda db: db.close())
        self._thread.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
