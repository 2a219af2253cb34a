"""The worker's route: what still runs is waited for, but not for long. On a real worker: see
eviction/test_release."""

from __future__ import annotations

from typing import Any

from agentserve.core.workers import KvRelease, KvReleased, OverSession
from agentserve.engine.release.routes import release

ASKED = KvRelease(sessions=[OverSession(id="a", keep=7), OverSession(id="b"), OverSession(id="c")])


class Schedulers:
    """Two of them; ``steps``: for each message, what each answers."""

    def __init__(self, *steps: tuple[KvReleased, KvReleased]) -> None:
        self._steps = list(steps)
        self.asked: list[list[str]] = []

    async def send(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        sessions = KvRelease.model_validate(body).sessions
        self.asked.append([one.id for one in sessions])
        assert all(one in ASKED.sessions for one in sessions)
        step = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]
        return [answer.model_dump() for answer in step]


async def test_nothing_runs():
    both = Schedulers((KvReleased(freed_tokens=30), KvReleased(freed_tokens=4)))
    assert await release(ASKED, both.send) == KvReleased(freed_tokens=34)
    assert both.asked == [["a", "b", "c"]]


async def test_those_that_run_are_asked_for_again():
    both = Schedulers(
        (KvReleased(freed_tokens=30, running=["c"]), KvReleased(freed_tokens=4, running=["a"])),
        (KvReleased(running=["c"]), KvReleased(freed_tokens=2)),
        (KvReleased(freed_tokens=5), KvReleased()),
    )
    assert await release(ASKED, both.send) == KvReleased(freed_tokens=41)
    assert both.asked == [["a", "b", "c"], ["a", "c"], ["c"]]


async def test_one_that_does_not_end():
    both = Schedulers((KvReleased(freed_tokens=1, running=["b"]), KvReleased()))
    released = await release(ASKED, both.send, patience_s=0.2)
    assert released.running == ["b"]
    assert len(both.asked) > 1 == len(both.asked[-1])
    assert released.freed_tokens == len(both.asked)
