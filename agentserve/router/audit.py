"""The audit log: who changed what everybody uses. A line of JSON a call, in the data folder."""

from __future__ import annotations

import asyncio
import json
import os
from datetime import UTC, datetime
from pathlib import Path

from agentserve.core.tenants import Caller
from agentserve.router.store import storage_failed


class AuditLog:
    """Appends to a file, which is never read by the router."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def note(self, caller: Caller, action: str, target: str, request_id: str) -> None:
        """Written and synced before the call is done, so that none goes unnoted. Raises
        StorageFailed."""
        line = json.dumps(
            {
                "at": datetime.now(UTC).isoformat(),
                "action": action,
                "target": target,
                "key": caller.key_id,
                "tenant": caller.tenant,
                "role": caller.role.value,
                "request_id": request_id,
            }
        )
        try:
            await asyncio.to_thread(self._append, f"{line}\n".encode())
        except OSError as error:
            raise storage_failed(error) from error

    def _append(self, line: bytes) -> None:
        # opened each time, so that it may be rotated; one write, so that lines do not mix
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(file, line)
            os.fsync(file)
        finally:
            os.close(file)
