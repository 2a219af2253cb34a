"""The ledger of blobs in the Redis store. A blob takes some 310 bytes of its memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from agentserve.core.plans import Sha256
from agentserve.router.store.ledger import BlobLeaving, BlobName, Claim
from agentserve.router.store.redis_link import RedisLink
from agentserve.router.store.redis_scripts import ROOT, Scripts

_SHA256 = 64


class RedisLedger:
    """Implements router.store.ledger.BlobLedger."""

    def __init__(self, link: RedisLink, scripts: Scripts) -> None:
        self._link = link
        self._scripts = scripts

    async def claim(
        self, tenant: str, sizes: Mapping[Sha256, int], quota: int, *, synced: bool = True
    ) -> Claim:
        named = [part for item in sizes.items() for part in item]
        async with self._link.reaching():
            answer = await self._scripts.run("claim_blobs", tenant, quota, *named)
        if not answer:
            raise BlobLeaving(tenant)
        granted, used, needed = answer
        return Claim(bool(granted), int(used), int(needed))

    async def use(self, tenant: str, names: Collection[Sha256]) -> dict[Sha256, int]:
        async with self._link.reaching():
            sizes = await self._scripts.run("use_blobs", tenant, *names)
        return {name: int(size) for name, size in zip(names, sizes, strict=True) if size}

    async def used(self, tenant: str) -> int:
        async with self._link.reaching() as redis:
            return int(await redis.hget(f"{ROOT}:blob_sums", tenant) or 0)

    async def leave(self, unused_s: float, overdue_s: float, limit: int) -> list[BlobName]:
        async with self._link.reaching():
            members = await self._scripts.run("leave_blobs", unused_s, overdue_s, limit)
        return [BlobName(member[_SHA256:], member[:_SHA256]) for member in members]

    async def drop(self, names: Sequence[BlobName]) -> None:
        async with self._link.reaching():
            members = [name.sha256 + name.tenant for name in names]
            await self._scripts.run("drop_blobs", *members)
