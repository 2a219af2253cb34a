"""Steps in CSS px become actions in model px whose points still lie in their boxes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentserve.core.actions import Click, Key, Scroll, Type, action_to_css
from agentserve.core.screens import ScreenSpace, Size, screen_space
from agentserve.nano.oracles import OracleStep, to_action

STEP = OracleStep("click", (0, 0, 160, 210), text="", keys="", dx=0, dy=0, thought="")
SPACE = screen_space(Size(width=160, height=210), 1.4, grid=28)


def boxes(width: float, height: float) -> list[tuple[float, float, float, float]]:
    """Boxes of one size all over the screen, at positions between the pixels too."""
    return [
        (x, y, x + width, y + height)
        for x in (0, 3.3, 40.5, 77.75, 160 - width)
        for y in (50, 52.2, 101.5, 150.75, 210 - height)
    ]


@pytest.mark.parametrize(("width", "height"), [(4, 4), (8, 8), (20.4, 11), (158, 100)])
def test_a_click_lands_inside_its_box_in_the_middle_of_a_bin(width: float, height: float) -> None:
    for box in boxes(width, height):
        action = to_action(replace(STEP, box=box), SPACE)
        assert isinstance(action, Click)
        assert (action.x % 4, action.y % 4) == (2, 2)
        on_page = action_to_css(action, SPACE)
        assert box[0] <= on_page.x <= box[2]
        assert box[1] <= on_page.y <= box[3]


def test_a_click_aims_at_the_middle() -> None:
    action = to_action(replace(STEP, box=(40, 100, 80, 120)), SPACE)
    assert abs(action.x - 84) <= 2
    assert abs(action.y - 110 * 280 / 210) <= 2


def test_a_point_stays_on_the_screen() -> None:
    space = ScreenSpace(
        css=Size(width=10, height=10), model=Size(width=28, height=28), scale=2.8, grid=28
    )
    action = to_action(replace(STEP, box=(8, 8, 10, 10)), space)
    assert (action.x, action.y) == (26, 26)


def test_scrolling_keeps_its_distance_on_the_page() -> None:
    action = to_action(replace(STEP, kind="scroll", dx=-40, dy=105), SPACE)
    assert action == Scroll(x=114, y=142, dx=-56, dy=140)
    on_page = action_to_css(action, SPACE)
    assert (on_page.dx, on_page.dy) == (-40, 105)


def test_the_keyboard_needs_no_place() -> None:
    typed = replace(STEP, kind="type", box=None, text='a "b"')
    assert to_action(typed, SPACE) == Type(text='a "b"')
    pressed = replace(STEP, kind="key", box=None, keys="Control+a")
    assert to_action(pressed, SPACE) == Key(keys="Control+a")
