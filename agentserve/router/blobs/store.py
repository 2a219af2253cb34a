"""The router's blobs: a ledger in the store says which there are, a backend has their bytes."""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections.abc import AsyncIterable, AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager

from agentserve.core.config import BLOB_USE_EVERY_S
from agentserve.core.errors import InvalidRequest, QuotaExceeded, StorageFailed, UnknownBlob
from agentserve.router.blobs.backend import BlobBackend
from agentserve.router.blobs.folder import write_all
from agentserve.router.metrics import Metrics
from agentserve.router.store import BlobLeaving, BlobLedger

AT_ONCE = 500
"""Most blobs in one question to the ledger."""
REMOVED_AT_ONCE = 50
LEFT_AGAIN_S = 600.0
"""A removal that has not ended by then was a lost router's."""
LEAVING_PATIENCE_S = 5.0
_LEAVING_PAUSE_S = 0.05
_MAX_FRESH = 50_000


class BlobStore:
    """Every ``sha256`` must be 64 hex digits already. A tenant's blobs are unknown to all others.

    A blob is used by whoever puts, reads, names or finds it, and may be removed once it was not for
    the time to live. Uses are written to the ledger twice an hour.
    """

    def __init__(
        self,
        backend: BlobBackend,
        ledger: BlobLedger,
        metrics: Metrics,
        *,
        quota: int,
        ttl_s: float,
    ) -> None:
        """``quota``: bytes of each tenant; 0: none. ``ttl_s``: 0: they stay."""
        self._backend = backend
        self._ledger = ledger
        self._metrics = metrics
        self._quota = quota
        self._ttl_s = ttl_s
        self._fresh: dict[tuple[str, str], tuple[float, int]] = {}
        """Time (monotonic) and size of those whose use need not be written again."""

    async def has(self, tenant: str, sha256: str) -> bool:
        """Raises StorageFailed, like all the others."""
        known = await self.use(tenant, [sha256])
        return bool(known) and await self._backend.has(tenant, sha256)

    async def size(self, tenant: str, sha256: str) -> int:
        """Bytes of a blob. Raises UnknownBlob."""
        if not await self.has(tenant, sha256):
            raise _unknown(sha256)
        return (await self.use(tenant, [sha256]))[sha256]

    async def read(self, tenant: str, sha256: str) -> bytes:
        """Raises UnknownBlob."""
        if await self.use(tenant, [sha256]):
            data = await self._backend.read(tenant, sha256)
            if data is not None:
                return data
        raise _unknown(sha256)

    async def put(self, tenant: str, blobs: Mapping[str, bytes]) -> None:
        """Store bytes of a turn, by their SHA-256; its answer is acknowledged by a synced write
        behind it. Raises QuotaExceeded when not all have room; then none was stored."""
        sizes = {sha256: len(data) for sha256, data in blobs.items()}
        await self._book(tenant, sizes, synced=False)
        await asyncio.gather(
            *(self._backend.put(tenant, sha256, data) for sha256, data in blobs.items())
        )

    async def receive(self, tenant: str, sha256: str, chunks: AsyncIterable[bytes]) -> int:
        """Store what arrives under the name it must have; returns its number of bytes.

        Raises InvalidRequest when the bytes have another hash, and QuotaExceeded, keeping nothing.
        """
        digest, size = hashlib.sha256(), 0
        with self._backend.folder.new_file() as file:
            async for chunk in chunks:
                digest.update(chunk)
                size += len(chunk)
                await asyncio.to_thread(write_all, file, chunk)
            if digest.hexdigest() != sha256:
                raise InvalidRequest(
                    f"the {size} bytes received have the SHA-256 {digest.hexdigest()}, "
                    f"not {sha256}",
                    hint="send the blob to the path of its own hash",
                )
            await self._book(tenant, {sha256: size}, synced=True)
            await self._backend.keep(file, tenant, sha256)
        return size

    async def use(self, tenant: str, names: Iterable[str]) -> dict[str, int]:
        """The sizes of those that are known, which are used now."""
        at = time.monotonic()
        asked = list(dict.fromkeys(names))
        known = self._known(tenant, asked, at)
        rest = [name for name in asked if name not in known]
        for start in range(0, len(rest), AT_ONCE):
            found = await self._ledger.use(tenant, rest[start : start + AT_ONCE])
            self._remember(tenant, found, at)
            known |= found
        return known

    @asynccontextmanager
    async def using(self, tenant: str, names: Collection[str]) -> AsyncIterator[None]:
        """Around what a program host does with these blobs: they are in the folder, and stay.
        Raises UnknownBlob."""
        known = await self.use(tenant, names)
        for name in names:
            if name not in known:
                raise _unknown(name)
        async with self._backend.local(tenant, names):
            yield

    async def expire(self) -> bool:
        """Remove some of the blobs that were not used in their time to live. Whether there may be
        more of them."""
        if not self._ttl_s:
            return False
        leaving = await self._ledger.leave(self._ttl_s, LEFT_AGAIN_S, REMOVED_AT_ONCE)
        for name in leaving:
            self._fresh.pop(name, None)
        await asyncio.gather(*(self._backend.remove(*name) for name in leaving))
        await self._ledger.drop(leaving)
        self._metrics.blobs_expired.inc(len(leaving))
        return len(leaving) >= REMOVED_AT_ONCE

    async def _book(self, tenant: str, sizes: Mapping[str, int], *, synced: bool) -> None:
        """Booked blobs stay so when their bytes cannot be written: another router may be writing
        the same ones. They expire like all others."""
        at = time.monotonic()
        known = self._known(tenant, sizes, at)
        rest = [item for item in sizes.items() if item[0] not in known]
        new = 0
        for start in range(0, len(rest), AT_ONCE):
            new += await self._claim(tenant, dict(rest[start : start + AT_ONCE]), at, synced)
        self._metrics.blob_bytes.labels("stored").inc(new)
        self._metrics.blob_bytes.labels("known").inc(sum(sizes.values()) - new)

    async def _claim(self, tenant: str, sizes: Mapping[str, int], at: float, synced: bool) -> int:
        """Bytes that were not known."""
        until = time.monotonic() + LEAVING_PATIENCE_S
        while True:
            try:
                claim = await self._ledger.claim(tenant, sizes, self._quota, synced=synced)
                break
            except BlobLeaving:
                if time.monotonic() > until:
                    raise StorageFailed(
                        "these bytes are just being removed, since nobody has used them",
                        hint="ask again in a moment",
                        retry_after=LEFT_AGAIN_S,
                    ) from None
                await asyncio.sleep(_LEAVING_PAUSE_S)
        if not claim.granted:
            raise QuotaExceeded(
                f"{claim.needed} more bytes do not fit into the {self._quota} that may be stored: "
                f"{claim.used} are used",
                hint="what is not used expires by itself; the operator can raise the quota",
                details={"used": claim.used, "needed": claim.needed, "limit": self._quota},
            )
        self._remember(tenant, sizes, at)
        return claim.needed

    def _known(self, tenant: str, names: Iterable[str], at: float) -> dict[str, int]:
        """Sizes, of what the ledger need not be asked for."""
        known = {}
        for name in names:
            used_at, size = self._fresh.get((tenant, name), (-math.inf, 0))
            if at - used_at < BLOB_USE_EVERY_S:
                known[name] = size
        return known

    def _remember(self, tenant: str, sizes: Mapping[str, int], at: float) -> None:
        for name, size in sizes.items():
            self._fresh.pop((tenant, name), None)  # the oldest are the first
            self._fresh[tenant, name] = (at, size)
        while len(self._fresh) > _MAX_FRESH:
            del self._fresh[next(iter(self._fresh))]


def _unknown(sha256: str) -> UnknownBlob:
    return UnknownBlob(f"there is no blob {sha256}", hint=f"send it first: PUT /v1/blobs/{sha256}")
