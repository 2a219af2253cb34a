"""A tile of the grid is, pixel for pixel, the screen that the product's own computer shows."""

from __future__ import annotations

import io

import pytest
from PIL import Image, ImageChops
from playwright.async_api import Browser

from agentserve.browser.scenarios import load_scenario, open_scenario
from agentserve.core.actions import Click, Scroll, parse_action
from agentserve.nano.collect.grid import Screen, open_grid
from agentserve.nano.collect.points import SPACE
from agentserve.nano.collect.scripts import WORDS

TASKS = (
    "click-test", "click-button", "click-dialog", "click-dialog-2", "click-tab", "focus-text",
    "login-user", "click-checkboxes", "count-shape", "sign-agreement", "click-link", "email-inbox",
)  # fmt: skip
"""Fractions of pixels, focus, scroll areas, pictures, native controls: between them they have all
that ever differed."""
LEVELS = {"sign-agreement": 8}
"""Of 255: letters in an area that scrolls are antialiased by where it lies in the window."""
SEED = 10_300


@pytest.fixture(scope="module")
async def rounds(browser: Browser) -> list[list[Screen]]:
    """Two rounds of TASKS, as the product would show them."""
    async with open_grid(browser, columns=4, rows=3, augment=0) as grid:
        await grid.deal(TASKS)
        return [await grid.round(SEED), await grid.round(SEED + 12)]


@pytest.fixture(scope="module")
async def styled(browser: Browser) -> list[Screen]:
    """A round of restyled screens, half of them words."""
    async with open_grid(browser, columns=4, rows=1, augment=1) as grid:
        await grid.deal(["click-button", "login-user", WORDS, WORDS])
        return await grid.round(SEED)


@pytest.mark.parametrize("index", range(len(TASKS)), ids=TASKS)
async def test_a_tile_is_the_products_screen(
    browser: Browser, rounds: list[list[Screen]], index: int
) -> None:
    record, png = rounds[1][index]
    assert (record["task"], record["seed"]) == (TASKS[index], SEED + 12 + index)
    scenario = load_scenario(f"miniwob/{record['task']}", record["seed"])
    async with open_scenario(browser, scenario) as stage:
        stage.computer.fit(SPACE)
        expected = await stage.computer.screenshot()
        assert stage.goal == record["goal"]
    with Image.open(io.BytesIO(expected)) as theirs, Image.open(io.BytesIO(png)) as ours:
        assert ours.size == (224, 280)
        difference = ImageChops.difference(theirs.convert("RGB"), ours.convert("RGB"))
    most = max(high for _, high in difference.getextrema())
    assert most <= LEVELS.get(record["task"], 0)


def test_every_round_shows_other_episodes(rounds: list[list[Screen]]) -> None:
    first, second = ([png for _, png in screens] for screens in rounds)
    same = [task for task, a, b in zip(TASKS, first, second, strict=True) if a == b]
    assert len(same) <= 1  # there are tasks with few episodes to show


def test_the_first_step_is_recorded_as_the_product_performs_it(
    rounds: list[list[Screen]],
) -> None:
    for record, _ in rounds[0]:
        assert record["turn"] == 0
        assert record["history"] == []
        action = parse_action(record["action"], SPACE.model)
        assert isinstance(action, Click | Scroll)
        left, top, right, bottom = record["target"]
        assert left <= action.x <= right
        assert top <= action.y <= bottom
        assert record["thought"]


def test_elements_and_words_are_those_of_the_tile(rounds: list[list[Screen]]) -> None:
    record, _ = rounds[0][TASKS.index("login-user")]
    roles = [element["role"] for element in record["elements"]]
    assert roles == ["label", "text field", "label", "password field", "button"]
    words = [word[0] for word in record["words"]]
    assert words[-3:] == ["Username", "Password", "Login"]
    for element in record["elements"]:
        assert 0 <= element["box"][0] < element["box"][2] <= 224
        assert 0 <= element["box"][1] < element["box"][3] <= 280


def test_restyled_screens_have_their_boxes_where_things_are(styled: list[Screen]) -> None:
    record, png = styled[1]
    assert record["augmented"] is True
    assert record["target"] is not None
    with Image.open(io.BytesIO(png)) as image:
        field = image.convert("L").crop(tuple(map(round, record["target"])))
    inside, edge = field.getpixel((field.width // 2, field.height // 2)), field.getpixel((0, 10))
    assert inside == 255  # a field is white, its frame is not
    assert edge < 255


def test_words_pages_are_full_and_have_nothing_to_do(styled: list[Screen]) -> None:
    for record, _ in styled[2:]:
        assert record["task"] == WORDS
        assert (record["goal"], record["action"], record["target"]) == ("", None, None)
        assert len(record["elements"]) >= 3
        assert len(record["words"]) >= 3
    assert styled[2][1] != styled[3][1]


async def test_a_page_that_cannot_start_is_told_and_left_out(browser: Browser) -> None:
    async with open_grid(browser, columns=2, rows=1) as grid:
        await grid.deal(["no-such-task", "click-test"])
        screens = await grid.round(SEED)
        assert [record["task"] for record, _ in screens] == ["click-test"]
        assert "no-such-task" in grid.failures
