from __future__ import annotations

from agentserve.router.workers.circuit import FAILURES, FIRST_PAUSE_S, LONGEST_PAUSE_S, Circuit


def opened(now: float = 0.0) -> Circuit:
    circuit = Circuit()
    for _ in range(FAILURES):
        circuit.failed(now)
    return circuit


def test_it_takes_failures_in_a_row():
    circuit = Circuit()
    for _ in range(3):
        for _ in range(FAILURES - 1):
            circuit.failed(0)
        assert not circuit.rests(0)
        circuit.succeeded()
    assert f"{FAILURES} requests in a row failed" in opened().rests(1)


def test_after_the_pause_one_success_closes_it():
    circuit = opened()
    assert circuit.rests(FIRST_PAUSE_S - 0.1)
    assert not circuit.rests(FIRST_PAUSE_S)
    circuit.succeeded()
    for _ in range(FAILURES - 1):
        circuit.failed(FIRST_PAUSE_S)
    assert not circuit.rests(FIRST_PAUSE_S)


def test_after_the_pause_one_failure_opens_it_for_longer():
    circuit, now, pause = opened(), 0.0, FIRST_PAUSE_S
    for _ in range(6):
        now += pause
        assert not circuit.rests(now)
        circuit.failed(now)
        pause = min(2 * pause, LONGEST_PAUSE_S)
        assert circuit.rests(now + pause - 0.1)
    assert pause == LONGEST_PAUSE_S


def test_requests_that_were_under_way_when_it_opened_do_not_make_it_longer():
    circuit = opened()
    circuit.failed(1)
    assert not circuit.rests(FIRST_PAUSE_S)
