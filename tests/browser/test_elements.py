"""Elements under points, and found again after the page has changed, in a real Chromium."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from playwright.async_api import Browser

from agentserve.browser.computer import PlaywrightComputer
from agentserve.browser.elements import find
from agentserve.browser.scenarios import load_scenario, open_scenario
from agentserve.core.elements import ElementTarget, PageBox, Selector


@pytest.fixture
async def computer(open_page: Any) -> AsyncIterator[PlaywrightComputer]:
    async with open_page("elements.html") as opened:
        await opened.load()
        yield opened


def ways(target: ElementTarget | None) -> dict[str, str]:
    """The last selector of each chain; the first css is the surest."""
    assert target is not None
    found: dict[str, str] = {}
    for chain in target.selectors:
        found.setdefault(chain[-1].engine, chain[-1].value)
    return found


async def test_a_part_of_a_button_is_the_button(computer: PlaywrightComputer) -> None:
    target = await computer.element_at(70, 22)
    assert ways(target) == {
        "aria": "★ Save all",
        "css": "#save",
        "xpath": "/html/body/button[1]",
    }
    assert target is not None
    assert target.box == PageBox(x=10, y=10, width=120, height=24)
    assert (target.offset, target.tag, target.text) == ((60, 12), "button", "Save all")
    assert target.selectors[0][0].role == "button"


async def test_selectors_that_find_more_than_one_are_left_out(computer: PlaywrightComputer) -> None:
    assert "aria" not in ways(await computer.element_at(20, 80))
    assert "text" not in ways(await computer.element_at(20, 80))
    assert ways(await computer.element_at(20, 50))["test_id"] == "drop"
    assert ways(await computer.element_at(20, 170))["text"] == "A line of text"
    field = ways(await computer.element_at(80, 140))
    assert field["aria"] == "City"
    assert field["css"] == 'input[name="city"]'  # its id has a number in it, made anew each time


async def test_shadow_roots_and_frames_are_part_of_the_way(computer: PlaywrightComputer) -> None:
    shadow = await computer.element_at(30, 200)
    assert shadow is not None and shadow.tag == "button"
    assert [selector.value for selector in shadow.selectors[1]] == [
        "html > body > my-card:nth-of-type(1)",
        "#pay",
    ]
    framed = await computer.element_at(30, 235)
    assert framed is not None and framed.text == "Inside"
    assert framed.box is not None and (framed.box.x, framed.box.y) == (15, 225)
    for target in (shadow, framed):
        for chain in target.selectors:
            alone = target.model_copy(update={"selectors": (chain,)})
            found = await find(computer.page, alone)
            assert found is not None, chain
            assert found.box == target.box


async def test_no_element_and_no_answer_are_none(
    computer: PlaywrightComputer, open_page: Any
) -> None:
    assert await computer.element_at(5000, 5) is None
    async with open_page("events.html", settle_timeout_s=0.2) as hung:
        await hung.load()
        await hung.page.evaluate("() => { setTimeout(() => { while (true); }, 0); }")
        assert await hung.element_at(10, 10) is None


async def test_a_page_can_neither_see_nor_bend_the_look(computer: PlaywrightComputer) -> None:
    await computer.page.evaluate("""() => {
      window.seen = 0;
      const lie = () => { seen++; return 'x'.repeat(1e7); };
      String.prototype.slice = String.prototype.replace = lie;
      Element.prototype.getAttribute = Document.prototype.querySelectorAll = lie;
      document.title = 'x'.repeat(1e6);
      document.querySelector('p').textContent = 'long '.repeat(1e5);
    }""")
    assert ways(await computer.element_at(20, 20))["css"] == "#save"
    long = await computer.element_at(20, 170)
    assert long is not None and len(long.text) <= 200 and "text" not in ways(long)
    assert await computer.page.evaluate("() => seen") == 0


async def test_a_text_that_was_cut_says_so_and_is_no_way(computer: PlaywrightComputer) -> None:
    await computer.page.evaluate("save.textContent = 'a '.repeat(150) + 'secret'")
    target = await computer.element_at(20, 20)
    assert target is not None and target.text.endswith("a a…") and len(target.text) == 200
    await computer.page.evaluate("save.textContent = ' '.repeat(3998) + 'secret'")
    target = await computer.element_at(20, 20)
    assert target is not None and target.text == "se…"
    assert not {"aria", "text"} & set(ways(target))


async def test_the_first_way_that_finds_one_visible_element_wins(
    computer: PlaywrightComputer,
) -> None:
    target = await computer.element_at(20, 20)
    assert target is not None
    found = await find(computer.page, target)
    assert found is not None and found.chain[0].engine == "aria"
    await computer.page.evaluate("""() => {
      save.lastChild.textContent = ' everything';
      save.style.top = '50px'; save.style.left = '150px';
    }""")
    found = await find(computer.page, target)
    assert found is not None and found.chain[0].value == "#save"
    assert (found.box.x, found.box.y) == (150, 50)
    await computer.page.evaluate("() => { save.hidden = true; save.style.display = 'none'; }")
    assert await find(computer.page, target) is None


@pytest.mark.parametrize(
    "selector",
    [
        Selector(engine="css", value="<<< ((("),
        Selector(engine="xpath", value="//["),
        Selector(engine="aria", value="x", role="no such role"),
        Selector(engine="css", value="*"),
    ],
)
async def test_a_selector_that_is_none_finds_nothing(
    computer: PlaywrightComputer, selector: Selector
) -> None:
    assert await find(computer.page, ElementTarget(selectors=((selector,),))) is None


async def test_a_name_without_a_role_finds_what_people_call_so(
    computer: PlaywrightComputer,
) -> None:
    for name, tag in (("Drop", "BUTTON"), ("City", "INPUT"), ("A line of text", "P")):
        chain = (Selector(engine="aria", value=name),)
        found = await find(computer.page, ElementTarget(selectors=(chain,)))
        assert found is not None
        assert await found.handle.evaluate("e => e.tagName") == tag


@pytest.mark.parametrize(
    ("selector", "top"),
    [
        (Selector(engine="aria", value="Twin", role="button", nth=1), 100),
        (Selector(engine="aria", value="Twin", role="button", nth=-1), 100),
        (Selector(engine="css", value="button", nth=2), 70),
        (Selector(engine="aria", value="dro", role="button", exact=False), 40),
        (Selector(engine="text", value="line OF", exact=False), 160),
        (Selector(engine="aria", value="", role="checkbox"), 43),
        (Selector(engine="aria", value="Twin", role="button", nth=2), None),
        (Selector(engine="aria", value="dro", role="button"), None),
    ],
)
async def test_parts_of_names_and_places_among_several(
    computer: PlaywrightComputer, selector: Selector, top: int | None
) -> None:
    found = await find(computer.page, ElementTarget(selectors=((selector,),)))
    assert (found and round(found.box.y)) == top


async def test_every_way_to_what_can_be_clicked_on_a_real_page_leads_there(
    browser: Browser,
) -> None:
    """The selectors are made by our script and used by Playwright: they must mean the same."""
    async with open_scenario(browser, load_scenario("admin/find-office")) as stage:
        page = stage.computer.page
        boxes = await page.evaluate("""() => [...document.querySelectorAll('a, button, input, h1')]
          .map(e => e.getBoundingClientRect())
          .filter(b => b.width && b.height && b.y > 0 && b.bottom < innerHeight)
          .map(b => [b.x + b.width / 2, b.y + b.height / 2])""")
        assert len(boxes) > 10
        checked = {"aria": 0, "css": 0, "xpath": 0}
        for x, y in boxes:
            target = await stage.computer.element_at(x, y)
            assert target is not None
            for chain in target.selectors:
                found = await find(page, target.model_copy(update={"selectors": (chain,)}))
                assert found is not None, (chain, target.text)
                assert found.box == target.box
                checked[chain[-1].engine] = checked.get(chain[-1].engine, 0) + 1
        assert min(checked[engine] for engine in ("aria", "css", "xpath")) > 8, checked
