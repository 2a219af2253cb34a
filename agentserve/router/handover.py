"""New pictures on their way to program hosts, as files for the time of a turn.

Hosts need not wait until the pictures are stored: that takes a synced write, and lasts as long as
it may while the program runs. What lies here is nobody's memory: it goes with the turn, and what a
lost router has left goes when the next one starts.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from agentserve.core.plans import Sha256
from agentserve.router.store import storage_failed
from agentserve.router.tasks import Tasks


class Handover:
    """A folder that one router has to itself."""

    def __init__(self, root: Path) -> None:
        """Raises StorageFailed."""
        self._root = root.absolute()
        self._tasks = Tasks()
        try:
            shutil.rmtree(self._root, ignore_errors=True)
            self._root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise storage_failed(error) from error

    @asynccontextmanager
    async def holding(self, pictures: Mapping[Sha256, bytes]) -> AsyncIterator[Path]:
        """The folder with these pictures, for the time of the block. Raises StorageFailed."""
        folder = self._root / secrets.token_hex(8)
        writing = self._tasks.start(asyncio.to_thread(_write, folder, pictures))
        try:
            await asyncio.shield(writing)
            yield folder
        finally:
            self._tasks.detach(_remove(folder, writing))

    async def stop(self) -> None:
        await self._tasks.stop()


def _write(folder: Path, pictures: Mapping[Sha256, bytes]) -> None:
    try:
        folder.mkdir()
        for sha256, data in pictures.items():
            (folder / sha256).write_bytes(data)
    except OSError as error:
        raise storage_failed(error) from error


async def _remove(folder: Path, writing: asyncio.Task[None]) -> None:
    await asyncio.wait({writing})  # a thread goes on when its turn has ended
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
