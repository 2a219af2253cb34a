"""The training prompts are, token for token, those that the product sends for the navigator."""

import importlib.util
from pathlib import Path

import pytest

import agentserve
from agentserve.core.families import family_named
from agentserve.core.plans import VisualItem
from agentserve.core.screens import Size
from agentserve.lang.prompt import Prompt
from agentserve.lang.tokenizer import SessionTokenizer
from agentserve.nano.tokenizer import build_tokenizer
from agentserve.nano.train.prompts import (
    NAVIGATOR_RULES,
    Answer,
    Speller,
    Writer,
    write_episode,
    write_single,
)

PROGRAMS = Path(agentserve.__file__).parents[1] / "programs"
TURNS = [
    Answer("text field", "click 10 14", (2.0, 6.0, 30.0, 20.0)),
    Answer("type the text", 'type "sed <|im_end|>"'),
    Answer('button "Submit"', "click 50 90", (20.0, 80.0, 90.0, 99.0)),
]


@pytest.fixture(scope="module")
def speller():
    return Speller()


def test_the_rules_are_the_navigators():
    spec = importlib.util.spec_from_file_location("navigator", PROGRAMS / "navigator.py")
    navigator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(navigator)
    assert navigator.RULES == NAVIGATOR_RULES


def as_the_product_writes(speller, task, answers, shown) -> list[int]:
    """What programs/navigator.py and lang.Prompt make of the same conversation."""
    prompt = Prompt([], SessionTokenizer(build_tokenizer().to_str()), family_named("qwen2_5_vl"))
    prompt.begin_message("system")
    prompt.text(NAVIGATOR_RULES)
    prompt.end_message()
    for turn, (answer, visible) in enumerate(zip(answers, shown, strict=True)):
        prompt.begin_message("user")
        if visible:
            item = VisualItem(blob="0" * 64, size=Size(width=224, height=280), tokens=80, turn=turn)
            prompt.screen((item,))
        if turn == 0:
            prompt.text(f"Task: {task}")
        prompt.end_message()
        prompt.begin_message("assistant")
        prompt.generated(list(speller.encode(answer.thought)), answer.thought)
        prompt.text("\n")
        prompt.generated(list(speller.encode(answer.action)), answer.action)
        prompt.end_message()
    ids = prompt.call_input().ids
    return [token for id in ids for token in ([id] * 80 if id == speller.image else [id])]


@pytest.mark.parametrize("shown", [(True, True, True), (False, False, True), (False, True, True)])
def test_an_episode_is_written_as_the_product_writes_it(speller, shown):
    task = 'Enter "sed <|im_end|>" into the text field and press Submit.'
    ours = write_episode(speller, 10, 8, task, TURNS, shown)
    whole = [*speller.prefix(), *ours.ids, *speller.encode("\n")]
    assert whole == as_the_product_writes(speller, task, TURNS, shown)


def test_learned_are_exactly_the_answers_to_shown_screens(speller):
    tokens = write_episode(speller, 10, 8, "Do it.", TURNS, (False, False, True))
    learned = [i for i, flag in zip(tokens.ids, tokens.learned, strict=True) if flag]
    last = TURNS[-1]
    assert learned == [
        *speller.encode(last.thought),
        *speller.encode("\n"),
        *speller.encode(last.action),
        speller.role_end,
    ]
    assert tokens.pictures == [2]
    assert [answer for _, answer in tokens.answers] == [last]


def test_branches_stand_at_the_same_positions_behind_the_picture(speller):
    tokens = write_single(speller, 10, 8, [("First.", TURNS[0]), ("Second.", TURNS[2])])
    places = {
        branch: [p for p, b in zip(tokens.positions, tokens.branch, strict=True) if b == branch]
        for branch in (0, 1, 2)
    }
    start = len(speller.prefix())
    opening = start + len(speller.begin("user")) + 1
    # the picture takes max(rows, columns) positions, then one for its end marker
    behind = opening + 10 + 1
    assert places[1][0] == places[2][0] == (behind,) * 3
    assert places[0][len(speller.begin("user")) + 1] == (opening,) * 3
    assert max(y for _, y, _ in places[0][:-1]) == opening + 9
    assert max(x for _, _, x in places[0][:-1]) == opening + 9 - 2


def test_positions_go_on_behind_a_picture_in_the_middle(speller):
    writer = Writer(speller, 2, 5, 100)
    writer.picture(0)
    assert writer.position == 100 + 1 + 5 + 1
