"""Reading scenario.toml files and finding scenarios by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentserve.browser.ask import ask
from agentserve.browser.scenarios import list_scenarios, load_scenario, open_scenario
from agentserve.core.errors import InvalidRequest

SHOP = """
kind = "site"
title = "A shop"
pages = ["pages"]
viewport = { width = 280, height = 280 }
scale = 1.0
max_turns = 5

[[tasks]]
name = "buy"
goal = "Buy it."
start = "shop.html"
check = "document.title === sessionStorage.getItem('wanted')"
script = "sessionStorage.setItem('wanted', 'Bought') // one line, without an end"

[[tasks]]
name = "look"
goal = "Look at it."
start = "shop.html"
check = "document.title"
max_turns = 2
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    pages = tmp_path / "shop" / "pages"
    pages.mkdir(parents=True)
    (pages / "shop.html").write_text("<!doctype html><title>Shop</title><p>A shop</p>")
    (tmp_path / "shop" / "scenario.toml").write_text(SHOP)
    return tmp_path


def rewrite(root: Path, old: str, new: str) -> None:
    assert old in SHOP
    (root / "shop" / "scenario.toml").write_text(SHOP.replace(old, new, 1))


def test_scenarios_are_listed_by_folder_and_task(root: Path) -> None:
    assert list_scenarios(root) == ["shop/buy", "shop/look"]


def test_a_task_may_have_a_limit_of_its_own(root: Path) -> None:
    buy, look = load_scenario("shop/buy", root=root), load_scenario("shop/look", root=root)
    assert (buy.max_turns, look.max_turns) == (5, 2)
    assert (buy.name, buy.folders) == ("shop/buy", (root / "shop" / "pages",))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("shop/by", "did you mean shop/buy"),
        ("shpo/buy", "did you mean shop/buy"),
        ("shop", "did you mean shop/"),
        ("../shop/buy", "did you mean shop/buy"),
        ("zzzz", "known: shop/buy, shop/look"),
    ],
)
def test_an_unknown_name_is_answered_with_near_ones(root: Path, name: str, hint: str) -> None:
    with pytest.raises(InvalidRequest) as failure:
        load_scenario(name, root=root)
    assert hint in failure.value.hint


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('title = "A shop"', 'title = "A shop"\ncolour = "red"', "colour"),
        ('goal = "Buy it."', 'goal = "Buy it."\nchekc = "true"', "chekc"),
        ('name = "buy"', 'name = "../buy"', "name"),
        ("scale = 1.0", "scale = 0", "scale"),
        ("max_turns = 5", "max_turns = 0", "max_turns"),
        ('kind = "site"', 'kind = "sight"', "kind"),
        ('kind = "site"', "kind =", "cannot read"),
    ],
)
def test_a_malformed_file_is_named_with_what_is_wrong(
    root: Path, old: str, new: str, message: str
) -> None:
    rewrite(root, old, new)
    with pytest.raises(InvalidRequest, match=message) as failure:
        load_scenario("shop/buy", root=root)
    assert "scenario.toml" in failure.value.message


async def test_a_script_runs_before_the_page_and_the_check_sees_the_page(
    root: Path, browser: Any
) -> None:
    async with open_scenario(browser, load_scenario("shop/buy", root=root)) as stage:
        assert stage.goal == "Buy it."
        assert stage.computer.url == stage.url and stage.url.endswith("/shop.html")
        assert (await stage.check()).success is False
        await stage.computer.page.evaluate("() => { document.title = 'Bought'; }")
        state = await stage.check()
        assert (state.done, state.reward, state.success) == (True, 1.0, True)


async def test_a_broken_check_is_an_error_and_no_failure_of_the_task(
    root: Path, browser: Any
) -> None:
    async with open_scenario(browser, load_scenario("shop/look", root=root)) as stage:
        with pytest.raises(InvalidRequest, match="true or false, not 'Shop'"):
            await stage.check()
    rewrite(root, 'check = "document.title"', 'check = "nothing.title"')
    async with open_scenario(browser, load_scenario("shop/look", root=root)) as stage:
        with pytest.raises(InvalidRequest, match="shop/look failed: .*nothing"):
            await stage.check()


async def test_a_check_waits_for_the_page_that_replaces_another(root: Path, browser: Any) -> None:
    async with open_scenario(browser, load_scenario("shop/buy", root=root)) as stage:
        for _ in range(5):
            await ask(stage.computer.page, "() => { setTimeout(() => location.reload(), 10); }")
            assert (await stage.check()).success is False


async def test_a_missing_start_page_is_reported(root: Path, browser: Any) -> None:
    rewrite(root, 'start = "shop.html"', 'start = "shpo.html"')
    with pytest.raises(InvalidRequest, match="answered 404"):
        async with open_scenario(browser, load_scenario("shop/buy", root=root)):
            pass
