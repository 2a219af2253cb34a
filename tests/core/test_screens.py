from __future__ import annotations

import math
from random import Random

import pytest
from pydantic import ValidationError

from agentserve.core.errors import InvalidRequest
from agentserve.core.screens import MAX_SIDE, Size, screen_space


def test_both_sides_are_on_the_token_grid():
    space = screen_space(Size(width=160, height=210), 1.4, 28)
    assert (str(space.model), str(space.device), str(space.css)) == (
        "224x280",
        "224x294",
        "160x210",
    )
    assert space.visual_tokens == 8 * 10
    assert [str(size) for size in space.accepts()] == ["224x280", "224x294", "160x210"]


def test_a_viewport_on_the_grid_needs_no_scaling():
    space = screen_space(Size(width=1120, height=672), 1, 28)
    assert space.accepts() == (Size(width=1120, height=672),)
    assert space.visual_tokens == 960


def test_a_tiny_viewport_has_at_least_one_token():
    assert screen_space(Size(width=3, height=3), 1, 28).model == Size(width=28, height=28)


@pytest.mark.parametrize("scale", [0.7, 1.0, 1.4, 2.0])
def test_conversions_stay_inside_and_agree(scale):
    space = screen_space(Size(width=160, height=210), scale, 28)
    for x in range(0, space.model.width, 7):
        for y in range(0, space.model.height, 7):
            css = space.to_css(x, y)
            assert 0 <= css[0] < space.css.width and 0 <= css[1] < space.css.height
            back = space.to_model(*css)
            reach = max(1, scale, 1 / scale) + 1
            assert abs(back[0] - x) <= reach and abs(back[1] - y) <= reach
    assert space.to_css(10**6, 10**6) == (159, 209)
    assert space.to_model(10**6, 10**6) == (space.model.width - 1, space.model.height - 1)


@pytest.mark.parametrize(("side", "scale"), [(MAX_SIDE, 2), (5000, 1)])
def test_screens_over_the_limit_are_refused(side, scale):
    with pytest.raises(InvalidRequest, match="limit"):
        screen_space(Size(width=side, height=side), scale, 28)


@pytest.mark.parametrize(
    "scale", [1e-320, 1e-9, 0.004, 0, -1, 8.1, 1e9, 1e308, math.inf, -math.inf, math.nan]
)
def test_scales_that_leave_no_screen_are_refused(scale):
    with pytest.raises(InvalidRequest, match="limit"):
        screen_space(Size(width=160, height=1030), scale, 28)


@pytest.mark.parametrize("grid", [28, 32])
def test_a_screen_that_is_accepted_can_be_captured(grid):
    """Whatever the scale: refused at once, or every size of the space is a valid one."""
    random = Random(7)
    made = 0
    for _ in range(3000):
        css = Size(width=random.choice([1, 3, 160, 8192]), height=random.randint(1, MAX_SIDE))
        try:
            space = screen_space(css, 10 ** random.uniform(-5, 1), grid)
        except InvalidRequest:
            continue
        made += 1
        assert {space.model, space.device, css} == set(space.accepts())
        assert space.visual_tokens >= 1
    assert made > 500


@pytest.mark.parametrize("side", [0, -1, MAX_SIDE + 1])
def test_sizes_have_bounds(side):
    with pytest.raises(ValidationError):
        Size(width=side, height=10)
