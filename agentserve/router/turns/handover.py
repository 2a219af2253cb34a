"""New pictures on their way to program hosts, as files for the time of a turn.

Hosts need not wait until the pictures are stored: that takes a synced write, and lasts as long as
it may while the program runs. What lies here is nobody's memory: it goes with the turn, and what a
lost router has left goes when the next one starts.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from agentserve.core.plans import Sha256
from agentserve.router.store import storage_failed
from agentserve.router.tasks import Tasks


class Handed:
    """The pictures of one turn. The calls block: make them in a thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._writing = threading.Lock()
        self._over = False

    def put(self, pictures: Mapping[Sha256, bytes]) -> None:
        """Nothing once the turn is over: a thread goes on when its turn has ended. Raises
        StorageFailed."""
        with self._writing:
            if self._over:
                return
            try:
                self.folder.mkdir(exist_ok=True)
                for sha256, data in pictures.items():
                    (self.folder / sha256).write_bytes(data)
            except OSError as error:
                raise storage_failed(error) from error

    def remove(self) -> None:
        with self._writing:
            self._over = True
            shutil.rmtree(self.folder, ignore_errors=True)


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

    @contextmanager
    def turn(self) -> Iterator[Handed]:
        """Of a turn, for the time of the block."""
        handed = Handed(self._root / secrets.token_hex(8))
        try:
            yield handed
        finally:
            self._tasks.detach(asyncio.to_thread(handed.remove))

    async def stop(self) -> None:
        await self._tasks.stop()
