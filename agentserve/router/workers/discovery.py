"""Where the router learns of its workers: from its settings, or from a file that others keep, and
at run time from its API.

What a cluster knows (DNS, Kubernetes' endpoints, Ray) is another Discovery, or a program that
writes the file.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from agentserve.core.config import worker_url
from agentserve.core.errors import InvalidRequest, StorageFailed, WorkerInUse
from agentserve.router.store import Store
from agentserve.router.tasks import end

log = logging.getLogger(__name__)
LOOK_EVERY_S = 1.0
MAX_FILE_BYTES = 1 << 20


class Discovery(Protocol):
    def workers(self) -> AsyncIterator[list[str]]:
        """The base URLs of all workers, at once and whenever they are others."""
        ...


class StaticDiscovery:
    """Those of the settings, for good."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = list(urls)

    async def workers(self) -> AsyncIterator[list[str]]:
        yield self._urls


class FileDiscovery:
    """Those in a file: a URL a line, ``#`` begins a comment. It should be replaced as a whole (by
    rename). While it cannot be read, or a line is no URL, the workers stay those they were."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def workers(self) -> AsyncIterator[list[str]]:
        known: list[str] | None = None
        problem = ""
        while True:
            try:
                urls = await asyncio.to_thread(read_workers, self._path)
            except InvalidRequest as error:
                if error.message != problem:
                    log.warning("the workers stay as they were: %s", error.message)
                problem = error.message
            else:
                problem = ""
                if urls != known:
                    known = urls
                    yield urls
            await asyncio.sleep(LOOK_EVERY_S)


class RuntimeDiscovery:
    """Those of another discovery, and those that were added at run time. The latter are in the
    store: they outlive a router, and all that share the store have them."""

    def __init__(self, base: Discovery, store: Store) -> None:
        self._base = base
        self._store = store
        self._named: list[str] = []
        self._changed = asyncio.Event()

    async def add(self, url: str) -> None:
        """Raises StorageFailed."""
        await self._store.add_worker(url)
        self._changed.set()

    async def remove(self, url: str) -> None:
        """Raises WorkerInUse for one that is not of those, StorageFailed."""
        if url in self._named or not await self._store.remove_worker(url):
            raise WorkerInUse(
                f"the worker {url} was not added by the API",
                hint="take it out of --workers-file, or restart the router without --worker",
            )
        self._changed.set()

    async def workers(self) -> AsyncIterator[list[str]]:
        told = self._base.workers()
        self._named = await anext(told)
        following = asyncio.create_task(self._follow(told))
        known: list[str] | None = None
        try:
            while True:
                self._changed.clear()
                try:
                    urls = list(dict.fromkeys([*self._named, *await self._store.added_workers()]))
                except StorageFailed as error:
                    if known is None:
                        raise
                    log.warning("the workers stay as they were: %s", error.message)
                    urls = known
                if urls != known:
                    known = urls
                    yield urls
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_EVERY_S):
                        await self._changed.wait()
        finally:
            await end([following])

    async def _follow(self, told: AsyncIterator[list[str]]) -> None:
        async for urls in told:
            self._named = urls
            self._changed.set()


def read_workers(path: Path) -> list[str]:
    """The URLs in a file, each once. Raises InvalidRequest, with the line."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InvalidRequest(f"the workers' file {path} cannot be read: {error.strerror}") from None
    if len(text) > MAX_FILE_BYTES:
        raise InvalidRequest(f"the workers' file {path} has more than {MAX_FILE_BYTES} bytes")
    urls: list[str] = []
    for number, line in enumerate(text.decode("utf-8", "replace").splitlines(), start=1):
        url = line.partition("#")[0].strip()
        if url:
            try:
                urls.append(worker_url(url))
            except InvalidRequest as error:
                raise InvalidRequest(
                    f"{path}, line {number}: {error.message}", hint=error.hint
                ) from None
    return list(dict.fromkeys(urls))
