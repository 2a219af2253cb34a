from __future__ import annotations

from dataclasses import replace

import pytest

from agentserve.core.errors import InvalidRequest
from agentserve.core.families import family_named
from agentserve.core.plans import TextPiece, VisualItem, num_tokens
from agentserve.core.screens import Size
from agentserve.vision.policies import check_policy, parse_policy, plan_prompt

TOKENS = 40
SHOWN = TOKENS + 2  # with its markers


def screen(turn: int, *, sent: bool = True) -> VisualItem:
    markers = {"begin": [1], "end": [2]} if sent else {}
    size = Size(width=140, height=224)
    return VisualItem(blob=f"{turn:064x}", size=size, tokens=TOKENS, turn=turn, **markers)


def text(*ids: int) -> TextPiece:
    return TextPiece(ids=list(ids))


def transcript(turns: int) -> list:
    pieces: list = [text(100, 101)]
    for turn in range(turns):
        pieces += [screen(turn), text(200 + turn), text(300 + turn, 301 + turn)]
    return pieces


def screens_in(plan) -> list[int]:
    return [piece.turn for piece in plan.prior if isinstance(piece, VisualItem)]


def ids_in(plan) -> list[int]:
    return [token for piece in plan.prior if isinstance(piece, TextPiece) for token in piece.ids]


@pytest.mark.parametrize(
    ("text", "screens", "most"),
    [
        ("full", None, None),
        ("current", 1, 1),
        ("last:1", 1, 1),
        ("last:12", 12, 12),
        ("interval:3:10", 3, 12),
        ("interval:1:1", 1, 1),
        ("mosaic", None, None),
    ],
)
def test_known_policies(text, screens, most):
    policy = parse_policy(text)
    assert (policy.name, policy.screens, policy.most) == (text, screens, most)
    assert policy.mosaic == (text == "mosaic")


@pytest.mark.parametrize(
    "text",
    ["", "Full", "last", "last:", "last:0", "last:-1", "last:1x", "⁵", "mosaic:1", "interval:3",
     "interval:0:3", "interval:3:0", "interval:3:10:1", "interval:3:10000"],
)  # fmt: skip
def test_unknown_policies_are_refused_with_the_known_ones(text):
    with pytest.raises(InvalidRequest) as caught:
        parse_policy(text)
    assert "full, current, last:N, interval:MIN:STEP, mosaic" in caught.value.hint


def test_a_mosaic_needs_positions_in_two_dimensions():
    flat = replace(family_named("qwen2_5_vl"), name="flat", mrope=False)
    assert check_policy(parse_policy("last:3"), flat, None) is None
    with pytest.raises(InvalidRequest, match="family flat cannot run the policy mosaic"):
        check_policy(parse_policy("mosaic"), flat, None)


@pytest.mark.parametrize(
    ("family", "cell", "edge"),
    [("qwen2_5_vl", None, 112), ("qwen3_vl", None, 128), ("qwen2_vl", 28, 28)],
)
def test_cells_are_on_the_grid_of_the_family(family, cell, edge):
    assert check_policy(parse_policy("mosaic"), family_named(family), cell) == edge


def test_other_cells_are_refused():
    with pytest.raises(InvalidRequest, match="112 px is no multiple"):
        check_policy(parse_policy("mosaic"), family_named("qwen3_vl"), 112)


@pytest.mark.parametrize("policy", ["full", "current", "last:3"])
def test_the_first_prompt_is_the_new_screen_alone(policy):
    plan = plan_prompt(parse_policy(policy), [], [screen(0, sent=False)], 1000)
    assert (plan.prior, plan.move) == ([], None)
    assert plan.visual_tokens == TOKENS


def test_full_extends_the_last_prompt():
    pieces = transcript(3)
    plan = plan_prompt(parse_policy("full"), pieces, [screen(3, sent=False)], 10_000)
    assert plan.prior == pieces
    assert plan.move is None
    assert plan.prior_tokens == 2 + 3 * (SHOWN + 3)


def test_current_keeps_all_text_and_no_earlier_screen():
    plan = plan_prompt(parse_policy("current"), transcript(3), [screen(3, sent=False)], 10_000)
    assert screens_in(plan) == []
    assert ids_in(plan) == [100, 101, 200, 300, 301, 201, 301, 302, 202, 302, 303]
    assert plan.move == "policy"


def test_last_n_counts_the_new_screen_and_moves_only_when_something_goes():
    policy = parse_policy("last:3")
    second = plan_prompt(policy, transcript(2), [screen(2, sent=False)], 10_000)
    assert (screens_in(second), second.move) == ([0, 1], None)
    third = plan_prompt(policy, transcript(3), [screen(3, sent=False)], 10_000)
    assert (screens_in(third), third.move) == ([1, 2], "policy")


def test_interval_drops_many_screens_at_once_and_then_none_for_a_while():
    policy = parse_policy("interval:2:3")
    pieces = transcript(1)
    counts, moves = [], []
    for turn in range(1, 10):
        plan = plan_prompt(policy, pieces, [screen(turn, sent=False)], 10_000)
        counts.append(len(screens_in(plan)) + 1)
        moves.append(plan.move)
        pieces = [*plan.prior, screen(turn), text(turn)]
    assert counts == [2, 3, 4, 2, 3, 4, 2, 3, 4]
    assert moves == [None, None, None, "policy", None, None, "policy", None, None]


def test_a_full_context_drops_the_oldest_screens_and_says_so():
    new = [screen(3, sent=False)]
    whole = num_tokens(transcript(3)) + SHOWN
    fits = plan_prompt(parse_policy("full"), transcript(3), new, whole)
    assert (screens_in(fits), fits.move) == ([0, 1, 2], None)
    tight = plan_prompt(parse_policy("full"), transcript(3), new, whole - 1)
    assert (screens_in(tight), tight.move) == ([1, 2], "context")
    assert tight.prior_tokens + SHOWN == whole - SHOWN
    assert ids_in(tight) == ids_in(fits)


def test_the_last_screen_that_fits_goes_as_well():
    plan = plan_prompt(parse_policy("full"), transcript(1), [screen(1, sent=False)], 2 + 3 + SHOWN)
    assert (screens_in(plan), plan.move) == ([], "context")


def test_all_items_of_a_dropped_screen_go_together():
    pieces = [text(1), screen(0), screen(0), text(2), screen(1), text(3)]
    plan = plan_prompt(parse_policy("last:2"), pieces, [screen(2, sent=False)], 10_000)
    assert screens_in(plan) == [1]
    assert ids_in(plan) == [1, 2, 3]


def test_text_alone_over_the_budget_is_refused():
    with pytest.raises(InvalidRequest, match="does not fit: 11 tokens of text and 42"):
        plan_prompt(parse_policy("full"), transcript(3), [screen(3, sent=False)], 11 + 41)
