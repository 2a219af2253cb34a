"""Waiting for a place: deadlines, cancellations at any moment, refusals."""

from __future__ import annotations

import asyncio
import random

import pytest

from agentserve.core.deadlines import Deadline
from agentserve.core.errors import OverCapacity, Overloaded, TurnTimeout
from agentserve.router.admission import Admission, TenantLimits
from agentserve.router.admission.places import MAX_RETRY_AFTER_S, MIN_RETRY_AFTER_S


async def until(condition) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_whoever_finds_no_place_waits_for_one():
    admission = Admission("turns", 1, 10)
    with admission.enter("a") as first:
        await first.ready(Deadline(0.001))  # it does not wait
        assert (first.waited, first.ahead) == (False, 0)
        second = asyncio.create_task(hold(admission, "b"))
        third = asyncio.create_task(hold(admission, "b"))
        await until(lambda: admission.queued == 2)
        third.cancel()
        await asyncio.wait({third})
        assert (admission.running, admission.queued, second.done()) == (1, 1, False)
    await second
    assert (admission.running, admission.queued) == (0, 0)


async def hold(admission: Admission, tenant: str, deadline_s: float = 20.0) -> None:
    with admission.enter(tenant) as place:
        await place.ready(Deadline(deadline_s))
        assert place.runs
        await asyncio.sleep(0)


async def test_the_time_of_one_that_waits_runs_out():
    admission = Admission("turns", 1, 10)
    with admission.enter("a"):
        with pytest.raises(TurnTimeout, match=r"0\.02 s"):
            await hold(admission, "b", 0.02)
        assert (admission.running, admission.queued) == (1, 0)


async def test_what_is_late_when_its_place_comes_does_not_run():
    admission = Admission("turns", 1, 10)
    deadline = Deadline(0.01)
    await asyncio.sleep(0.02)
    with admission.enter("a") as place:
        assert place.runs
        with pytest.raises(TurnTimeout):
            await place.ready(deadline)


async def test_refusals_say_whose_limit_it_is_and_when_to_ask_again():
    admission = Admission("turns", 1, 3, lambda name: TenantLimits(max_queued=2))
    with admission.enter("a"), admission.enter("a"), admission.enter("a"), admission.enter("b"):
        with (
            pytest.raises(OverCapacity, match="2 turns of this tenant") as own,
            admission.enter("a"),
        ):
            pass
        assert (own.value.status, own.value.details) == (429, {"queued": 2})
        assert own.value.retry_after == MIN_RETRY_AFTER_S  # nothing was measured yet
        with pytest.raises(Overloaded) as total, admission.enter("b"):
            pass
        assert (total.value.status, total.value.details) == (503, {"queued": 3})
    assert (admission.running, admission.queued) == (0, 0)


async def test_one_that_is_pushed_out_is_told():
    admission = Admission("turns", 1, 2)
    with admission.enter("crowd"):
        waiting = [asyncio.create_task(hold(admission, "crowd")) for _ in range(2)]
        await until(lambda: admission.queued == 2)
        with admission.enter("other"):
            with pytest.raises(Overloaded):
                await waiting[1]
            assert not waiting[0].done()
    await waiting[0]
    assert (admission.running, admission.queued) == (0, 0)


async def test_retry_after_follows_how_fast_places_become_free(monkeypatch: pytest.MonkeyPatch):
    clock = 1000.0
    monkeypatch.setattr("agentserve.router.admission.places.time.monotonic", lambda: clock)

    async def asked_again_after(held_s: float) -> float:
        nonlocal clock
        admission = Admission("turns", 2, 8)
        with admission.enter("a"):
            clock += held_s
        with admission.enter("a"), admission.enter("a"):
            waiting = [asyncio.create_task(hold(admission, "a")) for _ in range(8)]
            await until(lambda: admission.queued == 8)
            with pytest.raises(Overloaded) as refused, admission.enter("a"):
                pass
        await asyncio.gather(*waiting)
        return refused.value.retry_after or 0.0

    assert await asked_again_after(1.5) == 8 * 1.5 / 2
    assert await asked_again_after(0.01) == MIN_RETRY_AFTER_S
    assert await asked_again_after(300) == MAX_RETRY_AFTER_S


@pytest.mark.parametrize("seed", range(25))
async def test_no_place_is_lost_whenever_those_that_wait_are_cancelled(seed: int):
    draw = random.Random(seed)
    admission = Admission("turns", 3, 20, lambda name: TenantLimits(max_running=2))
    most = 0

    async def work(number: int) -> None:
        nonlocal most
        with admission.enter(f"t{number % 4}") as place:
            await place.ready(Deadline(draw.choice((0.001, 20.0))))
            most = max(most, sum(1 for _ in running) + 1)
            running.add(number)
            try:
                for _ in range(draw.randint(0, 4)):
                    await asyncio.sleep(0)
            finally:
                running.discard(number)

    running: set[int] = set()
    tasks = [asyncio.create_task(work(number)) for number in range(60)]
    while pending := [task for task in tasks if not task.done()]:
        for _ in range(draw.randint(0, 3)):
            await asyncio.sleep(0)
        if draw.random() < 0.5:
            draw.choice(pending).cancel()
    failures = {type(t.exception()) for t in tasks if not t.cancelled() and t.exception()}
    assert failures <= {TurnTimeout, Overloaded}
    assert (admission.running, admission.queued, running) == (0, 0, set())
    assert 0 < most <= 3
