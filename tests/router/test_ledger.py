"""The ledger of blobs, in every store; and two routers' stores on one database."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentserve.core.blobs import sha256_of
from agentserve.router.store import BlobLeaving, BlobName, Claim, RedisStore, SqliteStore, Store

from .records import age_blob

A, B, C = (sha256_of(name) for name in (b"a", b"b", b"c"))


async def test_blobs_are_counted_once(store: Store):
    ledger = store.ledger
    assert await ledger.used("ann") == 0
    assert await ledger.claim("ann", {A: 10, B: 5}, 0) == Claim(True, 0, 15)
    assert await ledger.claim("ann", {B: 5, C: 1}, 0) == Claim(True, 15, 1)
    assert await ledger.used("ann") == 16
    assert await ledger.use("ann", [A, C]) == {A: 10, C: 1}
    assert await ledger.claim("ann", {}, 0) == Claim(True, 16, 0)


async def test_tenants_know_nothing_of_each_other(store: Store):
    odd = "bob \0 \u20ac:'%"
    await store.ledger.claim("ann", {A: 10}, 0)
    assert await store.ledger.use(odd, [A]) == {}
    assert await store.ledger.claim(odd, {A: 10}, 10) == Claim(True, 0, 10)
    assert (await store.ledger.used("ann"), await store.ledger.used(odd)) == (10, 10)
    assert await store.ledger.used("") == 0
    for tenant in ("ann", odd):
        await age_blob(store, tenant, A, 10_000)
    names = await store.ledger.leave(5_000, 600, 5)
    assert set(names) == {BlobName("ann", A), BlobName(odd, A)}


async def test_what_goes_over_the_quota_is_not_booked(store: Store):
    ledger = store.ledger
    assert (await ledger.claim("", {A: 10}, 10)).granted
    assert await ledger.claim("", {A: 10, B: 1}, 10) == Claim(False, 10, 1)
    assert await ledger.use("", [B]) == {}
    assert await ledger.used("") == 10
    # what is there already is fine, also when the quota was lowered since
    assert await ledger.claim("", {A: 10}, 5) == Claim(True, 10, 0)


async def test_only_what_was_not_used_leaves(store: Store):
    ledger = store.ledger
    await ledger.claim("", {A: 1, B: 2}, 0)
    for name in (A, B):
        await age_blob(store, "", name, 10_000)
    assert await ledger.leave(20_000, 600, 9) == []
    await ledger.use("", [B])
    assert await ledger.leave(5_000, 600, 9) == [BlobName("", A)]
    assert await ledger.leave(5_000, 600, 9) == []
    # being removed: it is unknown, and cannot be booked until it is gone
    assert await ledger.use("", [A, B]) == {B: 2}
    with pytest.raises(BlobLeaving):
        await ledger.claim("", {A: 1}, 0)
    assert await ledger.used("") == 3
    await ledger.drop([BlobName("", A), BlobName("", B), BlobName("", C)])
    assert await ledger.used("") == 2, "only what was leaving is gone"
    assert await ledger.claim("", {A: 1}, 0) == Claim(True, 2, 1)
    await ledger.drop([BlobName("", A)])  # a late router's
    assert await ledger.use("", [A]) == {A: 1}


async def test_a_claim_is_a_use(store: Store):
    await store.ledger.claim("", {A: 1}, 0)
    await age_blob(store, "", A, 10_000)
    await store.ledger.claim("", {A: 1}, 0)
    assert await store.ledger.leave(5_000, 600, 9) == []


async def test_a_removal_that_was_cut_off_is_begun_again(store: Store):
    await store.ledger.claim("", {A: 1}, 0)
    await age_blob(store, "", A, 10_000)
    assert await store.ledger.leave(5_000, 600, 9) == [BlobName("", A)]
    await age_blob(store, "", A, 700)
    assert await store.ledger.leave(5_000, 600, 9) == [BlobName("", A)]
    assert await store.ledger.leave(5_000, 600, 9) == []


async def test_removals_come_in_batches(store: Store):
    names = [sha256_of(b"%d" % n) for n in range(7)]
    await store.ledger.claim("", dict.fromkeys(names, 1), 0)
    for name in names:
        await age_blob(store, "", name, 10_000)
    sizes = []
    while left := await store.ledger.leave(5_000, 600, 3):
        sizes.append(len(left))
        await store.ledger.drop(left)
    assert sizes == [3, 3, 1]
    assert await store.ledger.used("") == 0


@pytest.fixture(params=["sqlite", "redis"])
async def two(request, tmp_path: Path) -> AsyncIterator[tuple[Store, Store]]:
    """Two stores on one database."""
    if request.param == "sqlite":
        stores: list[Store] = [await SqliteStore.open(tmp_path / "s.sqlite") for _ in range(2)]
    else:
        url = request.getfixturevalue("redis_server").url
        stores = [await RedisStore.open(url) for _ in range(2)]
    yield stores[0], stores[1]
    for store in stores:
        await store.close()


async def test_a_quota_is_one_for_all_routers(two: tuple[Store, Store]):
    names = [sha256_of(b"%d" % n) for n in range(40)]
    claims = await asyncio.gather(
        *(two[n % 2].ledger.claim("ann", {name: 10}, 105) for n, name in enumerate(names))
    )
    assert [claim.granted for claim in claims].count(True) == 10
    assert await two[0].ledger.used("ann") == await two[1].ledger.used("ann") == 100


async def test_hot_questions_search_an_index(tmp_path: Path):
    path = tmp_path / "sessions.sqlite"
    await (await SqliteStore.open(path)).close()
    questions = (
        "SELECT size FROM blobs WHERE tenant = 't' AND sha256 IN ('a', 'b')",
        "SELECT sha256 FROM blobs INDEXED BY blobs_used WHERE leaving_at IS NULL AND used_at < 5",
        "SELECT sha256 FROM blobs INDEXED BY blobs_leaving WHERE leaving_at < 5",
        "SELECT bytes FROM blob_sums WHERE tenant = 't'",
    )
    db = sqlite3.connect(path)
    for sql in questions:
        plan = " ".join(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}"))
        assert "SEARCH" in plan and "SCAN" not in plan, plan
    db.close()
