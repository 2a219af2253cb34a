"""The ledger of blobs: which there are, whose, how large, and when they were last used.

It is part of the store, so that all routers have the same one, with sums kept up to date by every
write: neither a quota nor an expiry has to look at the blobs themselves. A blob is booked before
its bytes are written, and leaves the ledger after they are gone: bytes that nobody counts cannot be
left behind. The reverse can (a crash, a full disk): who reads must expect it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from agentserve.core.plans import Sha256


class BlobLeaving(Exception):
    """A blob is being removed at this moment: ask again."""


class BlobName(NamedTuple):
    tenant: str
    sha256: Sha256


class Claim(NamedTuple):
    """What came of asking for room."""

    granted: bool
    used: int
    """Bytes that the tenant had before."""
    needed: int
    """Bytes of those blobs that it did not have."""


class BlobLedger(Protocol):
    """Times are by the store's clock: a router whose own is wrong removes nobody's blobs."""

    async def claim(
        self, tenant: str, sizes: Mapping[Sha256, int], quota: int, *, synced: bool = True
    ) -> Claim:
        """Book blobs, which are used now. Nothing is booked when the tenant would then have more
        than ``quota`` bytes (0: any number is fine), unless it has all of them already. ``synced``
        as in Store.update: after a power cut, bytes of what was not acknowledged may be left that
        nobody counts.

        Raises BlobLeaving.
        """
        ...

    async def use(self, tenant: str, names: Collection[Sha256]) -> dict[Sha256, int]:
        """The sizes of those that are booked, which are used now: to config.BLOB_USE_EVERY_S. One
        that is being removed is none of them."""
        ...

    async def used(self, tenant: str) -> int:
        """Bytes that a tenant has."""
        ...

    async def leave(self, unused_s: float, overdue_s: float, limit: int) -> list[BlobName]:
        """Begin to remove blobs that were not used for so long, and again those whose removal has
        begun so long ago and never ended. Of each at most ``limit``."""
        ...

    async def drop(self, names: Sequence[BlobName]) -> None:
        """Forget blobs whose removal has begun, and is done."""
        ...
