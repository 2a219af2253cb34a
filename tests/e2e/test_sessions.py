"""Sessions through the real line: client, router, program host, SGLang."""

from __future__ import annotations

import asyncio
import base64
from collections import Counter

import httpx
import pytest
from e2e.helpers import navigator, screen

from agentserve.client import RouterClient
from agentserve.core.errors import SessionClosed, StaleEpoch
from agentserve.core.events import EventType
from agentserve.core.screens import Size
from agentserve.core.sessions import Outcome, SessionStatus


async def test_a_session_from_creation_to_release(router: RouterClient) -> None:
    session = await router.create_session(navigator())
    assert session.status is SessionStatus.IDLE
    assert session.epoch == 0
    first = screen(session.space.model)
    result = await router.turn(session.id, first, epoch=0)
    assert result.epoch == 0
    assert (result.action is None) == (result.invalid is not None)
    assert result.usage.visual_tokens == 80
    again = await router.turn(session.id, first, epoch=0)
    assert again.replayed
    assert again.model_copy(update={"replayed": False}) == result
    with pytest.raises(StaleEpoch) as stale:
        await router.turn(session.id, screen(session.space.model), epoch=0)
    assert stale.value.details["epoch"] == 1
    await router.release(session.id)
    with pytest.raises(SessionClosed):
        await router.turn(session.id, first, epoch=1)
    page = await router.events(session.id)
    assert [event.seq for event in page.events] == list(range(1, len(page.events) + 1))
    assert [event.type for event in page.events][-1] is EventType.SESSION_RELEASED
    followed = [event async for event in router.follow(session.id)]
    assert followed == page.events


async def test_the_second_turn_finds_its_whole_stored_prefix(router: RouterClient) -> None:
    session = await router.create_session(navigator())
    for turn in range(4):
        result = await router.turn(
            session.id,
            screen(session.space.model),
            epoch=turn,
            outcome=Outcome(status="ok") if turn else None,
        )
        usage = result.usage
        if turn:
            assert usage.stored_prefix_tokens > 100
            assert usage.cached_tokens >= usage.stored_prefix_tokens
            assert result.move is None
    assert (await router.session(session.id)).usage.prompt_tokens > usage.prompt_tokens


async def test_twenty_sessions_stay_on_their_workers(router: RouterClient) -> None:
    sessions = [await router.create_session(navigator(f"Task {i}.")) for i in range(20)]
    seen: dict[str, set[tuple[str, int]]] = {session.id: set() for session in sessions}
    for turn in range(3):
        for batch in range(0, 20, 4):
            results = await asyncio.gather(
                *(
                    router.turn(s.id, screen(s.space.model), epoch=turn)
                    for s in sessions[batch : batch + 4]
                )
            )
            for result in results:
                seen[result.session_id].add((result.worker.id, result.attempts))
    assert all(len(workers) == 1 for workers in seen.values()), seen
    spread = Counter(worker for workers in seen.values() for worker, _ in workers)
    assert len(spread) == 2
    assert min(spread.values()) >= 8
    for session in sessions:
        assert (await router.session(session.id)).pin.generation == 1


async def test_an_identical_prompt_is_cached_on_its_worker_only(workers: list[str]) -> None:
    picture = base64.b64encode(screen(Size(width=448, height=448))).decode()
    body = {
        "text": "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>What is this?"
        "<|im_end|>\n<|im_start|>assistant\n",
        "image_data": [f"data:image/png;base64,{picture}"],
        "sampling_params": {"max_new_tokens": 1, "temperature": 0},
    }
    async with httpx.AsyncClient(timeout=120) as http:

        async def cached_share(worker: str) -> float:
            answer = (await http.post(f"{worker}/generate", json=body)).raise_for_status()
            usage = answer.json()["meta_info"]
            return usage["cached_tokens"] / usage["prompt_tokens"]

        first = await cached_share(workers[0])
        again = await cached_share(workers[0])
        other = await cached_share(workers[1])
    # the text before the picture may be in the cache from other tests, no more than that
    assert first < 0.1
    assert again > 0.9
    assert other < 0.1
