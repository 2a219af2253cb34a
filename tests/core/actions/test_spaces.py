"""Coordinate spaces: both ways, by the centres of pixels, never off the screen."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from agentserve.core.actions.dialects import CoordinateSpace, css_pixels, fractions, pixels
from agentserve.core.actions.dialects.resize import (
    QWEN_MAX_PIXELS,
    QWEN_MIN_PIXELS,
    UI_TARS_MIN_PIXELS,
    smart_resize,
)
from agentserve.core.actions.dialects.spaces import thousandths
from agentserve.core.errors import BadAction, InvalidRequest
from agentserve.core.screens import Size, screen_space

SIZES = st.builds(Size, width=st.integers(1, 8192), height=st.integers(1, 8192))
SHARES = st.floats(0, 1, exclude_max=True)
SPACES = st.one_of(
    st.builds(fractions, SIZES), st.builds(thousandths, SIZES), st.builds(pixels, SIZES, SIZES)
)


@st.composite
def on_screen(draw) -> tuple[CoordinateSpace, int, int]:
    space = draw(SPACES)
    width, height = space.screen.width, space.screen.height
    return space, draw(st.integers(0, width - 1)), draw(st.integers(0, height - 1))


@given(on_screen())
def test_a_pixel_comes_back_within_one_step_of_the_coarser_grid(case):
    space, x, y = case
    back = space.to_screen(*space.from_screen(x, y))
    for was, now, side, extent in zip(
        (x, y), back, (space.screen.width, space.screen.height), space.extent, strict=True
    ):
        step = 1 if space.unit == "fraction" else math.ceil(max(1, side / extent))
        assert abs(was - now) <= step
        assert 0 <= now < side


@given(on_screen())
def test_what_is_written_is_in_range(case):
    space, x, y = case
    for value, extent in zip(space.from_screen(x, y), space.extent, strict=True):
        assert 0 <= value <= extent - (1 if space.unit == "pixel" else 0)


@given(SPACES, SHARES, SHARES)
def test_every_number_in_range_is_a_pixel_of_the_screen(space, across, down):
    width, height = space.extent
    x, y = space.to_screen(across * width, down * height)
    assert 0 <= x < space.screen.width and 0 <= y < space.screen.height


@given(SIZES, st.data())
def test_a_picture_of_the_screens_own_size_has_its_pixels(size, data):
    x = data.draw(st.integers(0, size.width - 1))
    y = data.draw(st.integers(0, size.height - 1))
    space = pixels(size, size)
    assert space.to_screen(x, y) == space.from_screen(x, y) == (x, y)


def test_a_pixel_of_a_smaller_picture_is_the_middle_of_what_it_stands_for():
    space = pixels(Size(width=100, height=100), Size(width=1000, height=500))
    assert space.to_screen(0, 0) == (5, 2)
    assert space.to_screen(99, 99) == (995, 497)


def test_css_pixels_agree_with_the_sessions_own_conversion():
    session = screen_space(Size(width=160, height=210), 1.4, 28)
    space = css_pixels(session)
    for point in [(0, 0), (80, 105), (159, 209)]:
        assert space.to_screen(*point) == session.to_model(*point)
    assert space.from_screen(223, 279) == session.to_css(223, 279)


@pytest.mark.parametrize(
    ("space", "point"),
    [
        (fractions(Size(width=10, height=10)), (1.001, 0)),
        (fractions(Size(width=10, height=10)), (0, -0.1)),
        (thousandths(Size(width=10, height=10)), (1001, 0)),
        (pixels(Size(width=10, height=10), Size(width=99, height=99)), (10, 0)),
        (pixels(Size(width=10, height=10), Size(width=99, height=99)), (0, -1)),
        (fractions(Size(width=10, height=10)), (float("nan"), 0)),
        (fractions(Size(width=10, height=10)), (0, float("inf"))),
    ],
)
def test_a_point_off_the_screen_is_refused(space, point):
    with pytest.raises(BadAction, match="outside the screen"):
        space.to_screen(*point)


def test_edges_of_ranges_that_include_them_are_the_last_pixel():
    size = Size(width=1120, height=672)
    assert thousandths(size).to_screen(1000, 1000) == (1119, 671)
    assert fractions(size).to_screen(1, 1) == (1119, 671)


def test_distances_scale_and_never_vanish():
    space = pixels(Size(width=1000, height=1000), Size(width=100, height=500))
    assert space.distance_to_screen(-200, 200) == (-20, 100)
    assert space.distance_to_screen(1, -1) == (1, -1)
    assert space.distance_from_screen(-20, 100) == (-200, 200)
    with pytest.raises(BadAction):
        space.distance_to_screen(1e308 * 10, 0)


def test_a_pixel_space_has_a_picture_and_no_other_has():
    size = Size(width=10, height=10)
    with pytest.raises(ValidationError):
        CoordinateSpace(unit="pixel", screen=size)
    with pytest.raises(ValidationError):
        CoordinateSpace(unit="fraction", image=size, screen=size)


def resized(width: int, height: int, min_pixels: int = QWEN_MIN_PIXELS) -> tuple[int, int]:
    size = Size(width=width, height=height)
    size = smart_resize(size, min_pixels=min_pixels, max_pixels=QWEN_MAX_PIXELS)
    return size.width, size.height


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((1120, 672), (1120, 672)),
        ((1280, 720), (1288, 728)),
        ((1920, 1080), (1932, 1092)),
        # 14/28 and 42/28 lie in the middle: to the even multiple, 0 and 2, and never to nothing
        ((14, 280), (28, 280)),
        ((42, 280), (56, 280)),
        # 70/28 = 2.5 goes down to 2, where rounding half up would go to 3
        ((70, 280), (56, 280)),
    ],
)
def test_smart_resize_rounds_as_python_does(size, expected):
    assert resized(*size) == expected


def test_smart_resize_keeps_between_its_bounds():
    # 100 tokens at least: 160x210 has 48
    assert resized(160, 210, UI_TARS_MIN_PIXELS) == (252, 336)
    assert 252 * 336 >= UI_TARS_MIN_PIXELS
    width, height = resized(8000, 4000)
    assert width * height <= QWEN_MAX_PIXELS and (width, height) == (5068, 2520)


@given(st.integers(1, 8192), st.integers(1, 8192))
def test_smart_resize_gives_whole_tokens(width, height):
    try:
        new_width, new_height = resized(width, height)
    except InvalidRequest:
        # far too thin, or rounded up over the longest side that a screen may have
        assert max(width, height) > min(8190, 200 * min(width, height))
        return
    assert new_width % 28 == new_height % 28 == 0
    assert QWEN_MIN_PIXELS <= new_width * new_height
