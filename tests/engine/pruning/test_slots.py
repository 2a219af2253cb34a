"""Slots of dropped tokens: free at once, taken by others, counted however a request ends."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from agentserve.core.pruning import Eviction, Pruning
from agentserve.engine.eviction.outcome import KEY

from ..eviction.sessions import slots_in_use
from ..items.asking import Worker
from .asking import BLOCKER, SETTINGS, Logged, ask, ask_behind, ask_together
from .conftest import POOL
from .prompts import Prompt, large_prompt, open_prompts, random_prompt

pytestmark = pytest.mark.timeout(900)

HALF = Pruning(method="fastv", ratio=0.5)


def body(worker: Worker, prompt: Prompt, pruning: Pruning | None, new: int, **fields: Any) -> dict:
    sampling = {"max_new_tokens": new}
    return worker.body(prompt.ids, prompt.sent(pruning), sampling_params=sampling, **fields)


@pytest.mark.parametrize("name", ["fastv", "pyramid_drop"])
def test_they_are_free_before_the_answer_s_second_token(wide: Logged, name: str):
    for prompt in open_prompts(wide.worker, 3):
        with wide.steps() as steps:
            one = ask(wide.worker, prompt, SETTINGS[name])
        assert one.outcome["pruned"] > 0
        left = len(prompt.layout.ids) - one.outcome["pruned"]
        # a step's line comes with its token's own slot, and with the next one's when it runs ahead
        assert left < steps[0]["token"] <= left + 2
        assert len(steps) >= 7


def test_another_request_takes_them(wide: Logged):
    """There is room for the second only where the first has given up half of its pictures."""
    worker = wide.worker
    first, second = large_prompt(worker, 1, 800), large_prompt(worker, 2, 600)
    assert len(first.layout.ids) + len(second.layout.ids) > POOL

    earlier, later = ask_behind(worker, (first, HALF), second, 60)
    assert earlier[KEY]["pruned"] == 400
    assert later["request_finished_ts"] < earlier["request_finished_ts"]
    earlier, later = ask_behind(worker, (first, None), second, 60)
    assert later["prefill_finished_time"] > earlier["request_finished_ts"]


def test_what_is_left_and_the_answer_are_stored(worker: Worker):
    for prompt in open_prompts(worker, 4):
        one = ask(worker, prompt, HALF)
        left = len(prompt.layout.ids) - one.outcome["pruned"]
        assert slots_in_use(worker.client) == left + len(one.answer.ids) - 1
        assert one.outcome["freed"] == 0


def test_an_answer_of_one_token(worker: Worker):
    for eviction in (None, Eviction(method="attention", keep=0.2)):
        (prompt,) = open_prompts(worker, 1)
        worker.flush()
        one = {"max_new_tokens": 1}
        response = worker.post(prompt.ids, prompt.sent(HALF, eviction), sampling_params=one)
        outcome = response.raise_for_status().json()["meta_info"][KEY]
        kept = sum(map(len, prompt.kept(outcome)))
        assert outcome["pruned"] + outcome["freed"] == sum(map(len, prompt.open)) - kept
        left = len(prompt.layout.ids) - outcome["pruned"] - outcome["freed"]
        assert slots_in_use(worker.client) == left


def test_the_same_prompt_twice_at_once_is_stored_once(wide: Logged):
    for prompt in open_prompts(wide.worker, 3):
        with wide.batches() as batches:
            one, other = ask_together(wide.worker, [(prompt, HALF), (prompt, HALF)])
        assert any(batch["new-seq"] == 2 for batch in batches)
        assert one.answer.ids == other.answer.ids
        assert one.outcome["keeps"] == other.outcome["keeps"]
        left = len(prompt.layout.ids) - one.outcome["pruned"] + len(one.answer.ids) - 1
        blocked = len(wide.worker.ids(BLOCKER)) + len(one.answer.ids) - 1
        assert slots_in_use(wide.worker.client) == left + blocked


def test_a_stream_tells_with_its_last_chunk(worker: Worker):
    (prompt,) = open_prompts(worker, 1)
    whole = ask(worker, prompt, HALF)
    worker.flush()
    asked = body(worker, prompt, HALF, 9, stream=True)
    with worker.client.stream("POST", "/generate", json=asked) as response:
        lines = [line for line in response.iter_lines() if line.startswith("data: {")]
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines]
    assert [KEY in chunk["meta_info"] for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert chunks[-1]["meta_info"][KEY] == whole.outcome | {
        "sources": chunks[-1]["meta_info"][KEY]["sources"]  # not the encoder's any more
    }
    assert chunks[-1]["output_ids"] == whole.answer.ids


def test_a_client_that_leaves(worker: Worker):
    prompt = next(p for p in open_prompts(worker, 9) if not p.pictures[0].chosen)
    worker.flush()
    asked = body(worker, prompt, HALF, 3000, stream=True)
    with worker.client.stream("POST", "/generate", json=asked) as response:
        next(response.iter_lines())
    end = time.monotonic() + 60
    while time.monotonic() < end:
        (load,) = worker.client.get("/v1/loads").raise_for_status().json()["loads"]
        if not load["num_running_reqs"]:
            break
        time.sleep(0.2)
    # what comes before all that was to be chosen from
    assert slots_in_use(worker.client) == int(prompt.open[0][0])


class TestRefusals:
    def refused(self, worker: Worker, prompt: Prompt, **fields: Any) -> str:
        response = worker.post(prompt.ids, prompt.sent(HALF), **fields)
        assert response.status_code == 400, response.text
        return response.json()["error"]["message"]

    @pytest.fixture
    def prompt(self, worker: Worker) -> Prompt:
        (prompt,) = open_prompts(worker, 1)
        return prompt

    def test_logprobs_of_the_prompt(self, worker: Worker, prompt: Prompt):
        message = self.refused(worker, prompt, logprob_start_len=0)
        assert "logprobs of the prompt cannot be told when fastv drops tokens" in message

    def test_hidden_states(self, worker: Worker, prompt: Prompt):
        message = self.refused(worker, prompt, return_hidden_states=True)
        assert "hidden states cannot be told when fastv drops tokens" in message

    def test_several_answers(self, worker: Worker, prompt: Prompt):
        response = worker.post([prompt.ids], [prompt.sent(HALF)], sampling_params={"n": 2})
        assert response.status_code == 400
        assert "n must be 1 with visual items" in response.json()["error"]["message"]

    def test_nothing_behind_the_items(self, worker: Worker):
        prompt = random_prompt(worker, 0, tail=False)
        assert "text follows the items to choose from" in self.refused(worker, prompt)

    def test_no_seal(self, worker: Worker, prompt: Prompt):
        urls = prompt.sent(HALF, seal=None)
        response = worker.post(prompt.ids, urls)
        assert response.status_code == 400
        assert "an item to choose from has no seal" in response.json()["error"]["message"]

    def test_a_worker_that_has_refused_still_works(self, worker: Worker, prompt: Prompt):
        self.refused(worker, prompt, logprob_start_len=0)
        assert ask(worker, prompt, HALF).outcome["pruned"] > 0
