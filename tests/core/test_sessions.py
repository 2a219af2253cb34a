from __future__ import annotations

import pytest
from pydantic import ValidationError

from agentserve.core.screenshots import ScreenshotRef
from agentserve.core.sessions import (
    CallUsage,
    Outcome,
    SessionCreate,
    TurnRequest,
    Usage,
)

CREATE = {"program": "p", "task": "t", "viewport": {"width": 160, "height": 210}}


def test_defaults_of_a_session():
    create = SessionCreate.model_validate(CREATE)
    assert (create.scale, create.policy, create.model, create.metadata) == (1.0, "full", None, {})
    assert (create.timeout_s, create.inactivity_timeout_s) == (3600, 900)
    assert (create.cell, create.positions, create.vision_context) == (None, "turn", "screen")


@pytest.mark.parametrize(
    "change",
    [
        {"program": ""},
        {"task": ""},
        {"task": "x" * 8001},
        {"scale": 0},
        {"scale": 8.1},
        {"scale": float("nan")},
        {"timeout_s": 0},
        {"timeout_s": float("inf")},
        {"metadata": {str(n): "" for n in range(33)}},
        {"metadata": {"k" * 101: ""}},
        {"metadata": {"k": "v" * 1001}},
        {"viewport": {"width": 0, "height": 1}},
        {"tools": []},
        {"cell": 0},
        {"positions": "screen"},
        {"vision_context": "all"},
    ],
)
def test_sessions_are_checked(change):
    with pytest.raises(ValidationError):
        SessionCreate.model_validate(CREATE | change)


def test_exactly_one_way_to_give_a_screenshot():
    assert ScreenshotRef(base64="AA==").blob is None
    assert ScreenshotRef(blob="0" * 64).base64 is None
    for fields in ({}, {"base64": "AA==", "blob": "0" * 64}):
        with pytest.raises(ValidationError, match="exactly one"):
            ScreenshotRef(**fields)


@pytest.mark.parametrize(
    "change", [{"epoch": -1}, {"instruction": "x" * 8001}, {"outcome": {"status": "odd"}}]
)
def test_turns_are_checked(change):
    with pytest.raises(ValidationError):
        TurnRequest.model_validate({"screenshot": {"base64": ""}} | change)


def test_usage_adds_up_without_the_calls():
    call = CallUsage(prompt_tokens=10, cached_tokens=4, completion_tokens=2)
    one = Usage(prompt_tokens=10, cached_tokens=4, visual_tokens=6, calls=[call])
    total = one.plus(one).plus(Usage(completion_tokens=3))
    assert (total.prompt_tokens, total.cached_tokens, total.visual_tokens) == (20, 8, 12)
    assert (total.completion_tokens, total.calls) == (3, [])


def test_values_are_frozen():
    outcome = Outcome(status="ok")
    with pytest.raises(ValidationError):
        outcome.status = "failed"
