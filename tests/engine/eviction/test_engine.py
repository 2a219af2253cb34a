"""Tokens leave the cache of a real worker: what is left is found again, and is what it was."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentserve.engine.eviction.outcome import KEY

from ..items.asking import NEW_TOKENS, Worker
from ..items.pictures import GRID
from ..items.reference import Reference
from .reference import Kept
from .sessions import PARTS, Session, Turn, slots_in_use
from .turns import START, UNSTORED, change, change_found, changed, started

pytestmark = pytest.mark.timeout(900)

ROUNDING = 2e-3
"""Two fp32 computations of a log probability."""
FAR = 0.1
"""KV with and without what has left in sight; these are about 1 apart."""


class TestTurns:
    def test_every_turn_finds_all_that_is_left(self, cold: Worker):
        session = started(cold, "one")
        for seed, part in enumerate([1, 2, 1, 0, 3, 3]):
            live = session.live
            turn = change_found(session, part, seed)
            gone = turn.answer.prompt_tokens + NEW_TOKENS - session.live
            assert gone in (12, 14)  # a part; its screen's markers, too, when it was the last
            assert set(turn.outcome["sources"][:-1]) == {"radix"}
            assert turn.outcome == turn.outcome | {
                "reason": None,
                "freed": gone,
                "copied": 0,
                "adopted": live - UNSTORED,
                "rebuilt": False,
            }
            assert slots_in_use(cold.client) == session.live - UNSTORED

    def test_a_prompt_that_waits_is_touched_under_its_names(self, cold: Worker):
        """SGLang touches what waits every 32nd time: by the plain ids, it would be split there."""
        session = started(cold, "one")
        for seed in range(34):
            live = session.live
            turn = change_found(session, seed % 4, seed)
            assert turn.outcome["adopted"] == live - UNSTORED, seed

    def test_kv_is_what_it_was(self, cold: Worker, reference: Reference):
        session = Session(cold, "one")
        kept = Kept(reference, session)
        turn = session.turn(START, PARTS)
        for seed, part in enumerate([1, 2, 1, 0]):
            assert turn.answer.error(kept.answer(turn.pieces, turn.answer.ids)) < ROUNDING
            kept.drop(turn.pieces)
            turn = change_found(session, part, seed)
        assert turn.answer.error(kept.answer(turn.pieces, turn.answer.ids)) < ROUNDING

    def test_a_part_loses_some_of_its_tokens(self, cold: Worker, reference: Reference):
        session = Session(cold, "one")
        kept = Kept(reference, session)
        turn = session.turn(START, PARTS)
        x, y, width, height = PARTS[0]
        for place in [(x, y, 28, height), (x, y + height - 28, width, 28)]:
            kept.answer(turn.pieces, turn.answer.ids)
            kept.drop(turn.pieces)
            live = session.live
            turn = session.turn(changed(0, 3), [place])
            assert turn.answer.cached == live - UNSTORED
            assert turn.outcome["freed"] == place[2] * place[3] // GRID**2
            assert slots_in_use(cold.client) == session.live - UNSTORED
        assert turn.answer.error(kept.answer(turn.pieces, turn.answer.ids)) < ROUNDING

    def test_a_whole_screen_loses_some_of_its_tokens(self, cold: Worker, reference: Reference):
        """It is an ordinary image to the engine until then, and is prepared as one."""
        session = Session(cold, "one")
        kept = Kept(reference, session)
        turn = session.turn(START, [(0, 0, *START.size)])
        for part in (0, 3, 1):
            kept.answer(turn.pieces, turn.answer.ids)
            kept.drop(turn.pieces)
            turn = change_found(session, part, 3)
        assert turn.answer.error(kept.answer(turn.pieces, turn.answer.ids)) < ROUNDING

    def test_without_a_word_of_it_nothing_leaves(self, cold: Worker):
        session = started(cold, "one")
        turn = change(session, 1, 5, evict=False)
        assert turn.outcome["reason"] == "nothing is to leave"
        held = turn.answer.prompt_tokens + NEW_TOKENS - UNSTORED
        assert slots_in_use(cold.client) == held


class TestOthers:
    def test_what_another_session_shares_stays_as_it_was(self, cold: Worker):
        alone = started(cold, "two")
        expected = [change_found(alone, 2, 30), change_found(alone, 1, 31)]
        cold.flush()
        one, two = started(cold, "one"), started(cold, "two")
        turn = change_found(one, 1, 10)
        assert (turn.outcome["adopted"], turn.outcome["freed"]) == (0, 0)
        assert turn.outcome["copied"] > 0
        change_found(one, 0, 11)
        for before, part, seed in zip(expected, (2, 1), (30, 31), strict=True):
            turn = change_found(two, part, seed)
            assert turn.answer.distance(before.answer) < ROUNDING

    def test_what_another_ended_with_is_copied_without_a_word_of_a_fork(self, cold: Worker):
        first, second = started(cold, "one"), started(cold, "two")
        change_found(first, 1, 10)
        change_found(second, 1, 10)  # the same: now both end at the same place
        assert change_found(first, 2, 11).outcome["adopted"] == 0
        assert change_found(second, 3, 12).outcome["adopted"] > 0

    def test_two_at_once(self, cold: Worker):
        sessions = [started(cold, "one"), started(cold, "two")]
        with ThreadPoolExecutor() as pool:
            for part in (1, 2, 1):
                turns = list(pool.map(change_found, sessions, [part] * 2, [70] * 2))
                assert turns[0].answer.distance(turns[1].answer) < ROUNDING

    def test_a_namespace_of_its_own(self, cold: Worker):
        session = Session(cold, "one")
        session.turn(START, PARTS, extra_key="tenant")
        live = session.live
        turn = change(session, 1, 10, extra_key="tenant")
        assert turn.answer.cached == live - UNSTORED
        live = session.live
        elsewhere = change(session.fork("two"), 2, 11, extra_key="other")
        assert (elsewhere.answer.cached, elsewhere.outcome["rebuilt"]) == (0, True)
        assert change(session, 2, 11, extra_key="tenant").answer.cached == live - UNSTORED


class TestRebuild:
    def test_what_was_lost_is_rebuilt_and_never_taken_for_the_other(self, cold: Worker):
        def in_place() -> tuple[Session, Turn]:
            session = started(cold, "one")
            change_found(session, 1, 10)
            change_found(session, 2, 11)
            before = session.fork("two")
            return before, change_found(session, 0, 12)

        lost, expected = in_place()
        cold.flush()
        rebuilt = change(lost, 0, 12)
        assert (rebuilt.answer.cached, rebuilt.outcome["rebuilt"]) == (0, True)
        assert rebuilt.answer.distance(expected.answer) > FAR
        live = lost.live
        later = change(lost, 1, 14)
        assert (later.answer.cached, later.outcome["rebuilt"]) == (live - UNSTORED, True)
        _, again = in_place()
        assert again.answer.distance(expected.answer) < ROUNDING

    def test_an_answer_of_which_only_the_beginning_is_continued(self, cold: Worker):
        session = started(cold, "one")
        change_found(session, 1, 10)
        shorter = session.fork("two")
        ids = shorter.pieces[-1].ids[:2]
        shorter.pieces[-1] = shorter.pieces[-1].model_copy(update={"ids": ids})
        live = shorter.live
        turn = change(shorter, 2, 11)
        assert (turn.answer.cached, turn.outcome["rebuilt"]) == (live, False)
        change_found(session, 2, 11)


class TestEnds:
    def test_a_stream_tells_with_its_last_chunk(self, cold: Worker):
        session = started(cold, "one")
        pieces = session.prompt(changed(1, 10), [PARTS[1]], "")
        body = session.body(pieces, stream=True)
        with cold.client.stream("POST", "/generate", json=body) as response:
            lines = [line for line in response.iter_lines() if line.startswith("data: {")]
        chunks = [json.loads(line.removeprefix("data: ")) for line in lines]
        assert [KEY in chunk["meta_info"] for chunk in chunks] == [False] * (len(chunks) - 1) + [1]
        assert chunks[-1]["meta_info"][KEY]["freed"] == 12
        session.answered(pieces, chunks[-1]["output_ids"])
        change_found(session, 2, 11)

    def test_an_answer_that_stops(self, cold: Worker):
        session = started(cold, "one")
        whole = change(session.fork("two"), 1, 10).answer.ids
        cold.flush()
        session = started(cold, "one")
        stop = {"stop_token_ids": [whole[1]], "ignore_eos": False, "max_new_tokens": 50}
        turn = change(session, 1, 10, sampling_params=stop)
        assert turn.answer.ids == whole[:2]
        shorter = session.fork("two")
        shorter.pieces[-1] = shorter.pieces[-1].model_copy(update={"ids": whole[:1]})
        # a client may leave out what the answer stopped with
        live = shorter.live
        following = change(shorter, 2, 11)
        assert (following.answer.cached, following.outcome["rebuilt"]) == (live, False)
        change_found(session, 2, 11)

    def test_an_answer_of_one_token(self, cold: Worker):
        session = started(cold, "one")
        turn = change(session, 1, 10, sampling_params={"max_new_tokens": 1})
        assert turn.outcome["freed"] == 12
        change_found(session, 2, 11)

    def test_a_client_that_leaves(self, cold: Worker):
        session = started(cold, "one")
        change_found(session, 1, 10)
        stays = session.live - UNSTORED
        pieces = session.prompt(changed(2, 11), [PARTS[2]], "")
        body = session.body(pieces, stream=True, sampling_params={"max_new_tokens": 3000})
        with cold.client.stream("POST", "/generate", json=body) as response:
            next(response.iter_lines())
        end = time.monotonic() + 60
        while _running(cold) and time.monotonic() < end:
            time.sleep(0.2)
        # nothing was stored behind what was to leave, and what was there is as it was
        assert slots_in_use(cold.client) == stays
        change_found(session, 2, 11)

    def test_what_does_not_fit_the_prompt_is_refused(self, cold: Worker):
        session = started(cold, "one")
        pieces = session.prompt(changed(1, 10), [PARTS[1]], "")
        body = session.body(pieces)
        body["image_data"] = body["image_data"][1:] + body["image_data"][:1]
        answer = cold.client.post("/generate", json=body)
        assert answer.status_code == 400
        assert "with the first item only" in answer.json()["error"]["message"]


def _running(worker: Worker) -> int:
    (load,) = worker.client.get("/v1/loads").raise_for_status().json()["loads"]
    return load["num_running_reqs"]
