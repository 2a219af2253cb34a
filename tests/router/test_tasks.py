from __future__ import annotations

import asyncio

import pytest

from agentserve.router.tasks import Tasks, end, to_its_end


async def test_work_outlives_its_caller():
    tasks, done = Tasks(), asyncio.Event()

    async def work() -> str:
        await asyncio.sleep(0.05)
        done.set()
        return "result"

    caller = asyncio.create_task(tasks.run(work()))
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    await asyncio.wait_for(done.wait(), 5)
    assert await tasks.run(work()) == "result"


async def test_errors_reach_the_caller():
    async def fail() -> None:
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        await Tasks().run(fail())


async def test_stopping_cancels_and_waits_for_the_clean_up():
    tasks, steps = Tasks(), []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            steps.append("cleaned")

    caller = asyncio.create_task(tasks.run(work()))
    await asyncio.sleep(0.01)
    await tasks.stop()
    assert steps == ["cleaned"]
    with pytest.raises(asyncio.CancelledError):
        await caller


async def test_a_cancellation_that_was_lost_is_told_again():
    lost = 0

    async def stubborn() -> None:
        nonlocal lost
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                lost += 1
                if lost > 2:
                    raise

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    await end([task], 0.05)
    assert (task.cancelled(), lost) == (True, 3)


async def test_a_clean_up_is_done_whatever_cancellations_come_meanwhile():
    begun, go_on, steps = asyncio.Event(), asyncio.Event(), []

    async def clean_up() -> None:
        begun.set()
        await go_on.wait()
        steps.append("cleaned")

    task = asyncio.create_task(to_its_end(clean_up()))
    await begun.wait()
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert steps == ["cleaned"]


async def test_a_clean_up_that_hangs_is_given_up():
    hanging = asyncio.Event()
    with pytest.raises(TimeoutError):
        await to_its_end(until(hanging), 0.01)
    with pytest.raises(ValueError, match="x"):
        await to_its_end(failing())


async def until(event: asyncio.Event) -> None:
    await event.wait()


async def failing() -> None:
    raise ValueError("x")
