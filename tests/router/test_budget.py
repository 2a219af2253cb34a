from __future__ import annotations

from agentserve.core.workers import Worker, WorkerState
from agentserve.router.turns.budget import prompt_budget
from agentserve.testing.worker import FakeWorker


def test_what_a_turn_may_add_is_kept_free():
    report = FakeWorker(context_length=4096).report()
    worker = Worker(id="w", url="http://w", state=WorkerState.READY, report=report)
    assert prompt_budget(worker, 512) == 4096 - 256 - 2 * 512
    assert prompt_budget(worker, 512, "abc", "é") == 4096 - 256 - 2 * 512 - 3
    assert prompt_budget(worker, 2048) < 0
