"""Sessions that are over leave the cache of a real worker; what others need of them does not.

The worker ends itself when a slot has not exactly one owner: see checked.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentserve.core.workers import KvReleased

from ..items.asking import NEW_TOKENS, Worker
from ..items.pictures import BEGIN, END, IMAGE, plain, screen
from .sessions import PARTS, SYSTEM, TAIL, Session, slots_in_use
from .turns import START, UNSTORED, change, change_found, changed, started

pytestmark = pytest.mark.timeout(900)


def release(worker: Worker, *owners: str, keep: int = 0) -> KvReleased:
    body = {"sessions": [{"id": owner, "keep": keep} for owner in owners]}
    answer = worker.client.post("/agentserve/release", json=body).raise_for_status()
    return KvReleased.model_validate_json(answer.content)


def freed(worker: Worker, *owners: str, keep: int = 0) -> int:
    """By a release, as the worker says and as its tree shows."""
    before = slots_in_use(worker.client)
    released = release(worker, *owners, keep=keep)
    assert released.running == []
    assert before - slots_in_use(worker.client) == released.freed_tokens
    return released.freed_tokens


class TestMosaics:
    def test_its_own_goes_and_what_it_shared_stays(self, cold: Worker):
        one, two = started(cold, "one"), started(cold, "two")
        change_found(one, 1, 10)
        change_found(two, 2, 20)
        both = slots_in_use(cold.client)
        gone = freed(cold, "one")
        assert 0 < gone < one.live
        assert slots_in_use(cold.client) == both - gone == two.live - UNSTORED
        # as if nothing had happened
        change_found(two, 3, 21)
        assert freed(cold, "two") == two.live - UNSTORED
        assert slots_in_use(cold.client) == 0

    def test_what_is_to_be_kept(self, cold: Worker):
        session = started(cold, "one")
        change_found(session, 3, 10)
        held = session.live - UNSTORED
        assert freed(cold, "one", keep=20) == held - 20
        assert slots_in_use(cold.client) == 20
        assert freed(cold, "one") == 0  # it is nobody's any more
        assert started(cold, "two").live > 20

    def test_one_that_has_never_been(self, cold: Worker):
        session = started(cold, "one")
        assert freed(cold, "nobody", "no one") == 0
        change_found(session, 1, 10)

    def test_one_that_ended_where_another_goes_on(self, cold: Worker):
        parent = started(cold, "parent")
        fork = parent.fork("fork")
        change_found(parent, 1, 10)
        assert freed(cold, "parent") > 0
        # the fork has not run yet, and finds all that it began with
        change_found(fork, 2, 20)
        change_found(fork, 1, 21)

    def test_one_of_which_forks_have_not_run(self, cold: Worker):
        parent = started(cold, "parent")
        one = parent.fork("one")
        two = one.fork("two")
        over = {"id": "parent", "forked": parent.live - UNSTORED}
        answer = cold.client.post("/agentserve/release", json={"sessions": [over]})
        assert answer.json() == {"freed_tokens": 0, "running": []}
        change_found(one, 1, 10)
        freed(cold, "one")
        change_found(two, 2, 20)

    def test_one_that_has_gone_on_from_where_a_fork_begins(self, cold: Worker):
        parent = started(cold, "parent")
        change_found(parent, 1, 10)
        fork = parent.fork("fork")
        change_found(parent, 2, 11)
        change_found(parent, 0, 12)
        assert freed(cold, "parent") > 0
        change_found(fork, 1, 20)

    def test_one_whose_twin_ends_at_the_same_place(self, cold: Worker):
        one, two = started(cold, "one"), started(cold, "two")
        assert freed(cold, "one") == 0
        change_found(two, 1, 10)
        assert one.live - UNSTORED > 0 == slots_in_use(cold.client) - (two.live - UNSTORED)

    def test_both_at_once(self, cold: Worker):
        one, two = started(cold, "one"), started(cold, "two")
        change_found(one, 1, 10)
        change_found(two, 2, 20)
        assert freed(cold, "one", "two") > 0
        assert slots_in_use(cold.client) == 0

    def test_the_same_session_again_after_that(self, cold: Worker):
        """One that has moved away and comes back."""
        session = started(cold, "one")
        change_found(session, 1, 10)
        freed(cold, "one")
        turn = change(session, 2, 11)
        assert (turn.answer.cached, turn.outcome["rebuilt"]) == (0, True)
        live = session.live
        assert change(session, 1, 12).answer.cached == live - UNSTORED
        assert freed(cold, "one") == session.live - UNSTORED

    def test_in_a_namespace_of_its_own(self, cold: Worker):
        salted = Session(cold, "salted")
        salted.turn(START, PARTS, cache_salt="tenant")
        public = started(cold, "public")
        assert freed(cold, "salted") == salted.live - UNSTORED
        change_found(public, 1, 10)


class TestWhileOthersRun:
    def test_another_goes_on(self, cold: Worker):
        one, two = started(cold, "one"), started(cold, "two")
        change_found(one, 1, 10)
        long = {"sampling_params": {"max_new_tokens": 60}}
        with ThreadPoolExecutor() as pool:
            running = pool.submit(change, two, 2, 20, **long)
            _until_running(cold)
            assert release(cold, "one").freed_tokens > 0
            turn = running.result()
        assert turn.outcome["reason"] is None
        assert slots_in_use(cold.client) == two.live - UNSTORED
        change_found(two, 1, 21)

    def test_its_own_request_ends_first(self, cold: Worker):
        session = started(cold, "one")
        pieces = session.prompt(changed(1, 10), [PARTS[1]], "")
        body = session.body(pieces, stream=True, sampling_params={"max_new_tokens": 3000})
        with cold.client.stream("POST", "/generate", json=body) as response:
            lines = response.iter_lines()  # held: without it the response is closed
            next(lines)
            assert release(cold, "one") == KvReleased(freed_tokens=0, running=["one"])
        # the client has left, and the worker may not know yet
        assert release(cold, "one").running == []
        assert slots_in_use(cold.client) == 0


class TestOtherPrompts:
    def test_text_alone(self, cold: Worker):
        ids = cold.ids(SYSTEM + "Look here." + TAIL)
        more = [*ids, *cold.ids("Go on."), *cold.ids(TAIL)]
        for prompt, session in ((ids, "one"), (more, "one"), (ids, "two")):
            cold.post(prompt, [], session_id=session).raise_for_status()
        # the other ends with the first of these prompts, and the same answer
        answer = NEW_TOKENS - UNSTORED
        assert freed(cold, "one") == len(more) + answer - len(ids)
        assert freed(cold, "two") == len(ids) + answer
        assert slots_in_use(cold.client) == 0

    def test_ordinary_pictures_of_which_old_ones_are_dropped(self, cold: Worker):
        """Each prompt begins a branch of its own."""
        shared = cold.ids(SYSTEM)
        ask = f"{SYSTEM}{{}}{BEGIN}{IMAGE}{END}{TAIL}"
        for turn in range(3):
            picture = plain(screen(turn, 224, 168))
            cold.post(ask.format(turn), [picture], session_id="one").raise_for_status()
        cold.post(ask.format("two"), [plain(START)], session_id="two").raise_for_status()
        assert freed(cold, "one") > 3 * 48
        left = slots_in_use(cold.client)
        assert 48 < left < 48 + len(shared) + 40
        assert freed(cold, "two") == left

    def test_nobody_s_stay(self, cold: Worker):
        ids = cold.ids(SYSTEM)
        cold.post(ids, []).raise_for_status()
        assert freed(cold, "one") == 0
        assert slots_in_use(cold.client) == len(ids) + NEW_TOKENS - UNSTORED

    def test_messages_that_are_none(self, cold: Worker):
        for body in ({}, {"sessions": [{"id": ""}]}, {"sessions": [{"id": "a", "keep": -1}]}):
            assert cold.client.post("/agentserve/release", json=body).status_code in (400, 422)


def _until_running(worker: Worker) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        (load,) = worker.client.get("/v1/loads").raise_for_status().json()["loads"]
        if load["num_running_reqs"]:
            return
        time.sleep(0.02)
    raise AssertionError("nothing runs")
