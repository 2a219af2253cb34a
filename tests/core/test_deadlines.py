from __future__ import annotations

import pytest

from agentserve.core.deadlines import Deadline
from agentserve.core.errors import TurnTimeout


def test_time_runs_out(monkeypatch: pytest.MonkeyPatch):
    clock = 50.0
    monkeypatch.setattr("agentserve.core.deadlines.time.monotonic", lambda: clock)
    deadline = Deadline(2.5, "request")
    clock += 2
    assert deadline.remaining() == 0.5
    clock += 0.5
    with pytest.raises(TurnTimeout, match=r"the request took longer than its 2\.5 s"):
        deadline.remaining()


def test_an_end_is_told_to_what_runs_and_to_what_comes_later():
    deadline, calls = Deadline(60), []
    with deadline.ending(lambda: calls.append("before")):
        pass
    with deadline.ending(lambda: calls.append("runs")):
        deadline.end()
    assert calls == ["runs"]
    with deadline.ending(lambda: calls.append("later")):
        assert calls == ["runs", "later"]
    with pytest.raises(TurnTimeout, match="nobody waits"):
        deadline.remaining()
