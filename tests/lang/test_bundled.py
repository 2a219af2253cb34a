"""The programs that come with agentserve, against a scripted worker."""

from __future__ import annotations

import pytest

from agentserve.core.actions import action_regex
from agentserve.core.deadlines import Deadline
from agentserve.core.sessions import Outcome
from agentserve.lang.registry import load_registry
from agentserve.lang.turns import TurnRunner

NAMES = ["form_filler", "navigator", "verifier"]


@pytest.fixture
def run(bundled, blobs, http, make_turn, scripted):
    one = TurnRunner(registry=load_registry([bundled]), blobs=blobs, http=http)
    return lambda name, **fields: one.run(make_turn(name, scripted.url, **fields), Deadline(30))


def scored(scripted, *logprobs: float) -> list:
    """What select asks: the prefix, then a score for each choice's tokens."""
    answers = []
    for choice, logprob in zip(("yes", "no"), logprobs, strict=True):
        answer = scripted.answer("")
        entries = [[logprob, token, ""] for token in scripted.tokenizer.encode(choice)]
        answer["meta_info"] |= {"input_token_logprobs": entries, "output_token_logprobs": []}
        answers.append(answer)
    return [scripted.answer(""), answers]


@pytest.mark.parametrize("name", NAMES)
def test_sessions_share_all_that_stands_before_the_first_screen(run, scripted, name: str) -> None:
    """Architecture 3.1: a task in front of the key screen would cost every session its own."""
    prompts = []
    for task in ("Press OK", "Buy milk and a very long list of other things"):
        scripted.requests.clear()
        scripted.script = scored(scripted, -1.0, -2.0) if name == "verifier" else []
        answer = run(name, task=task, instruction=task)
        assert task in "".join(piece.text for piece in answer.pieces if piece.kind == "text")
        ids = scripted.requests[0]["input_ids"]
        prompts.append(ids[: ids.index(scripted.tokenizer.special_id("<|image_pad|>"))])
    assert prompts[0] == prompts[1]
    assert len(prompts[0]) > 20


def test_the_navigator_thinks_then_acts(run, scripted) -> None:
    scripted.script = [scripted.answer("The button is there."), scripted.answer("click 5 6")]
    answer = run("navigator", outcome=Outcome(status="failed", message="nothing there"))
    assert answer.variables == {"thought": "The button is there.", "action": "click 5 6"}
    assert answer.action_text == "click 5 6"
    text = "".join(piece.text for piece in answer.pieces if piece.kind == "text")
    assert "nothing there\nTask: Press OK" in text
    assert text.endswith("The button is there.\nclick 5 6")
    regex = scripted.requests[1]["sampling_params"]["regex"]
    assert regex == action_regex(answer.pieces[1].size)


def test_the_form_filler_has_a_form_fillers_actions(run, scripted) -> None:
    scripted.script = [scripted.answer("name, city"), scripted.answer('type "Ada"')]
    answer = run("form_filler")
    assert answer.variables == {"empty": "name, city", "action": 'type "Ada"'}
    kinds = ("click", "type", "key", "scroll", "done")
    regex = scripted.requests[1]["sampling_params"]["regex"]
    assert regex == action_regex(answer.pieces[1].size, kinds)


@pytest.mark.parametrize(("scores", "verdict"), [((-0.1, -3.0), "yes"), ((-3.0, -0.1), "no")])
def test_the_verifier_answers_by_probability_and_gives_a_reason(
    run, scripted, scores: tuple[float, float], verdict: str
) -> None:
    scripted.script = [*scored(scripted, *scores), scripted.answer("it is red.")]
    answer = run("verifier", instruction="Is it red?")
    assert answer.variables == {"verdict": verdict, "reason": "it is red."}
    assert answer.action_text is None
    assert answer.pieces[-1].text.endswith("it is red.")
    assert len(answer.calls) == 4
