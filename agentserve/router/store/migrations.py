"""The schema, step by step. A step that was released is never edited: append another one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from agentserve.core.errors import StorageFailed
from agentserve.router.store.connection import Connection

Migration = Callable[[sqlite3.Connection], object]


def _first_schema(db: sqlite3.Connection) -> None:
    statements = (
        # `n` orders sessions by creation; `record` is the whole SessionRecord, the other columns
        # repeat what is searched for.
        """CREATE TABLE sessions (
            n INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            version INTEGER NOT NULL,
            status TEXT NOT NULL,
            deadline REAL NOT NULL,
            worker_id TEXT,
            boot_id TEXT,
            last_seq INTEGER NOT NULL,
            record TEXT NOT NULL)""",
        "CREATE INDEX sessions_by_status ON sessions (status, n)",
        "CREATE INDEX sessions_due ON sessions (deadline) WHERE status = 'idle'",
        """CREATE INDEX sessions_pinned ON sessions (worker_id, boot_id)
            WHERE status IN ('idle', 'running')""",
        """CREATE TABLE turns (
            session_id TEXT NOT NULL,
            epoch INTEGER NOT NULL,
            key TEXT NOT NULL,
            result TEXT NOT NULL,
            pieces TEXT NOT NULL,
            PRIMARY KEY (session_id, epoch))""",
        """CREATE TABLE events (
            session_id TEXT NOT NULL,
            seq INTEGER NOT NULL,
            type TEXT NOT NULL,
            at TEXT NOT NULL,
            data TEXT NOT NULL,
            PRIMARY KEY (session_id, seq)) WITHOUT ROWID""",
        """CREATE TABLE pass_pins (
            session_id TEXT PRIMARY KEY,
            pin TEXT NOT NULL,
            used_at REAL NOT NULL) WITHOUT ROWID""",
        "CREATE INDEX pass_pins_used ON pass_pins (used_at)",
    )
    for statement in statements:
        db.execute(statement)


def _layouts(db: sqlite3.Connection) -> None:
    db.execute(
        """CREATE TABLE layouts (
            surface TEXT PRIMARY KEY,
            learner TEXT NOT NULL) WITHOUT ROWID"""
    )


def _held(db: sqlite3.Connection) -> None:
    db.execute(
        """CREATE TABLE held (
            session_id TEXT PRIMARY KEY,
            record TEXT NOT NULL)"""
    )


def _drains(db: sqlite3.Connection) -> None:
    db.execute(
        """CREATE TABLE drains (
            worker_id TEXT PRIMARY KEY,
            router TEXT NOT NULL) WITHOUT ROWID"""
    )


def _pin_loads(db: sqlite3.Connection) -> None:
    db.execute("ALTER TABLE sessions ADD COLUMN held_tokens INTEGER NOT NULL DEFAULT 0")
    db.execute("DROP INDEX sessions_pinned")
    db.execute(
        """CREATE INDEX sessions_pinned ON sessions (worker_id, boot_id, held_tokens)
            WHERE status IN ('idle', 'running')"""
    )


def _tenants(db: sqlite3.Connection) -> None:
    statements = (
        "ALTER TABLE sessions ADD COLUMN tenant TEXT NOT NULL DEFAULT ''",
        "CREATE INDEX sessions_of_tenant ON sessions (tenant, n)",
        "CREATE INDEX sessions_of_tenant_by_status ON sessions (tenant, status, n)",
        """CREATE TABLE keys (
            n INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            record TEXT NOT NULL)""",
    )
    for statement in statements:
        db.execute(statement)


def _blobs(db: sqlite3.Connection) -> None:
    statements = (
        # `leaving_at`: when their removal has begun
        """CREATE TABLE blobs (
            tenant TEXT NOT NULL,
            sha256 TEXT NOT NULL,
            size INTEGER NOT NULL,
            used_at REAL NOT NULL,
            leaving_at REAL,
            PRIMARY KEY (tenant, sha256)) WITHOUT ROWID""",
        "CREATE INDEX blobs_used ON blobs (used_at) WHERE leaving_at IS NULL",
        "CREATE INDEX blobs_leaving ON blobs (leaving_at) WHERE leaving_at IS NOT NULL",
        """CREATE TABLE blob_sums (
            tenant TEXT PRIMARY KEY,
            bytes INTEGER NOT NULL) WITHOUT ROWID""",
    )
    for statement in statements:
        db.execute(statement)


def _life(db: sqlite3.Connection) -> None:
    db.execute("DROP INDEX sessions_due")
    db.execute(
        "CREATE INDEX sessions_due ON sessions (deadline) WHERE status IN ('idle', 'paused')"
    )
    db.execute(
        "CREATE INDEX sessions_closed ON sessions (deadline)"
        " WHERE status IN ('released', 'expired')"
    )
    db.execute("CREATE TABLE workers (url TEXT PRIMARY KEY) WITHOUT ROWID")


MIGRATIONS: tuple[Migration, ...] = (
    _first_schema, _layouts, _held, _drains, _pin_loads, _tenants, _life, _blobs,
)  # fmt: skip


async def migrate(db: Connection) -> None:
    """Apply what is missing, each step in a transaction. ``user_version`` counts applied steps."""
    (row,) = await db.execute("PRAGMA user_version")
    if row[0] > len(MIGRATIONS):
        raise StorageFailed(
            f"the session database has schema {row[0]}, this agentserve knows {len(MIGRATIONS)}: "
            "it was written by a newer version",
            hint="update agentserve, or choose another --data",
        )
    for number, step in enumerate(MIGRATIONS[row[0] :], start=row[0] + 1):

        def applied(db: sqlite3.Connection, number: int = number, step: Migration = step) -> None:
            ((version,),) = db.execute("PRAGMA user_version")
            if version < number:  # another process may have been first
                step(db)
                db.execute(f"PRAGMA user_version = {number}")

        await db.transaction(applied)
