"""Collecting fills a folder, goes on where it ended, and keeps what it has when it is stopped."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agentserve.core.errors import BrowserFailed
from agentserve.nano.collect import read_shards, run
from agentserve.nano.collect.plan import Plan, Summary
from agentserve.nano.collect.run import collect

TILES = 12


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "ROUNDS", 2)
    monkeypatch.setattr(run, "EPISODES", 3)


def plan(folder: Path, **fields: object) -> Plan:
    return Plan(out=folder, **{"screens": 1, "tasks": ("click-test",), "pages": 1, **fields})  # type: ignore[arg-type]


async def test_a_second_run_goes_on_with_new_seeds(tmp_path: Path) -> None:
    counts: list[int] = []
    for screens in (TILES * 3, 1):
        summary = Summary()
        await collect(plan(tmp_path, screens=screens), counts.append, summary)
    assert counts == [12, 24, 36, 12]
    seeds = [record["seed"] for record, _ in read_shards(tmp_path)]
    # the second block was left half used; what is left of it is never used again
    assert sorted(seeds) == [*range(10_000, 10_036), *range(10_048, 10_060)]
    assert summary.by_task == {"click-test": 7, "words": 5}
    assert summary.with_step == {"click-test": 7, "words": 0}
    assert summary.seconds > 0


async def test_solo_keeps_what_was_solved(tmp_path: Path) -> None:
    summary = Summary()
    tasks = ("click-test", "focus-text")
    await collect(plan(tmp_path, mode="solo", screens=4, tasks=tasks), lambda _: None, summary)
    assert summary.episodes.total() == 4
    assert [record["turn"] for record, _ in read_shards(tmp_path)] == [0] * 4
    assert len(summary.shards) == 2


async def test_what_is_there_is_kept_when_it_is_stopped(tmp_path: Path) -> None:
    rounds = asyncio.Event()
    work = asyncio.ensure_future(
        collect(plan(tmp_path, screens=10_000), lambda count: rounds.set(), Summary())
    )
    await rounds.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert len(list(read_shards(tmp_path))) >= TILES
    assert not list(tmp_path.glob(".*"))


async def test_a_task_that_is_never_solved_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentserve.nano.collect.solo.MAX_TURNS", 0)
    with pytest.raises(BrowserFailed, match="none of 3 episodes was solved"):
        await collect(plan(tmp_path, mode="solo"), lambda _: None, Summary())
