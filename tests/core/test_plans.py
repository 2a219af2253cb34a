from __future__ import annotations

import pytest
from pydantic import ValidationError

from agentserve.core.plans import Plan, TextPiece, VisualItem, num_tokens
from agentserve.core.screens import Size

SIZE = Size(width=56, height=56)


def item(**fields) -> VisualItem:
    return VisualItem.model_validate(
        {"blob": "a" * 64, "size": SIZE, "tokens": 4, "turn": 0} | fields
    )


def test_an_items_markers_are_its_own_tokens():
    assert item().prompt_tokens == 4
    assert item(begin=[1], end=[2, 3]).prompt_tokens == 7
    assert num_tokens([TextPiece(ids=[1, 2, 3]), item(begin=[1], end=[2])]) == 9
    assert num_tokens([]) == 0


def test_a_plan_counts_what_it_holds():
    plan = Plan(prior=[TextPiece(ids=[9]), item(begin=[1], end=[2])], screen=[item(turn=1)])
    assert (plan.prior_tokens, plan.visual_tokens, plan.move) == (7, 8, None)


def test_a_plan_survives_json():
    plan = Plan(prior=[TextPiece(ids=[9], text="t"), item(begin=[1])], screen=[item()], move="m")
    assert Plan.model_validate_json(plan.model_dump_json()) == plan


@pytest.mark.parametrize(
    "fields",
    [{"blob": "A" * 64}, {"blob": "../" + "a" * 61}, {"blob": "a" * 63}, {"tokens": 0}, {"x": 1}],
)
def test_items_are_checked(fields):
    with pytest.raises(ValidationError):
        item(**fields)
