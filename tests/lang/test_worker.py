from __future__ import annotations

import socket
import time

import pytest

from agentserve.core.deadlines import Deadline
from agentserve.core.errors import AgentServeError, TurnTimeout, WorkerLost, WorkerRefused
from agentserve.lang.http import WorkerHttp
from agentserve.lang.worker import WorkerClient

BODY = {"input_ids": [1, 2, 3], "sampling_params": {}}
ABORTED = {
    "text": "",
    "output_ids": [],
    "meta_info": {"finish_reason": {"type": "abort", "message": "shutting down"}},
}


@pytest.mark.parametrize(
    ("entry", "error", "words"),
    [
        (500, WorkerLost, "status 500 as told"),
        (503, WorkerLost, "status 503 as told"),
        (400, WorkerRefused, "status 400 as told"),
        (413, WorkerRefused, "status 413 as told"),
        ("drop", WorkerLost, "no answer"),
        (0.05, WorkerLost, "no answer"),
        (ABORTED, WorkerLost, "shutting down"),
        ({"text": "half an answer"}, WorkerLost, "no generation"),
        ([1, 2], WorkerLost, "no generation"),
        (None, WorkerLost, "no generation"),
    ],
)
def test_failures_have_names(
    scripted, http: WorkerHttp, entry, error: type[AgentServeError], words: str
) -> None:
    scripted.script = [entry]
    with pytest.raises(error, match=words):
        WorkerClient(http, scripted.url, Deadline(10)).generate(BODY)
    assert len(scripted.requests) == 1


def test_a_worker_that_is_not_there(http: WorkerHttp) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(WorkerLost, match="ConnectError"):
            WorkerClient(http, url, Deadline(10)).generate(BODY)


def test_a_silent_worker_costs_the_turns_time_and_no_more(scripted, http: WorkerHttp) -> None:
    scripted.script = [5.0]
    started = time.monotonic()
    with pytest.raises(TurnTimeout, match=r"0\.3 s"):
        WorkerClient(http, scripted.url, Deadline(0.3)).generate(BODY)
    assert 0.25 < time.monotonic() - started < 2


def test_nothing_is_sent_after_the_deadline(scripted, http: WorkerHttp) -> None:
    deadline = Deadline(0.01)
    time.sleep(0.02)
    with pytest.raises(TurnTimeout):
        WorkerClient(http, scripted.url, deadline).generate(BODY)
    assert scripted.requests == []


def test_one_answer_or_a_list_of_them(scripted, http: WorkerHttp) -> None:
    one = scripted.answer("back")
    scripted.script = [one, [one, one]]
    worker = WorkerClient(http, scripted.url, Deadline(10))
    assert worker.generate(BODY) == [one]
    assert worker.generate(BODY) == [one, one]
