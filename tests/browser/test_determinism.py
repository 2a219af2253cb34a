"""Pages that would show something else each time."""

from __future__ import annotations

import io
import re
from datetime import UTC, datetime
from typing import Any

from PIL import Image

from agentserve.core.actions import Wait
from agentserve.core.elements import PageBox
from agentserve.core.pages import PageSettings
from agentserve.core.screens import Size, screen_space

NOON = datetime(2026, 2, 3, 12, 0, 30, tzinfo=UTC)


async def drawn(open_page: Any, **settings: Any) -> dict[str, Any]:
    async with open_page("chance.html", settings=PageSettings(**settings)) as computer:
        await computer.load()
        return await computer.page.evaluate("() => drawn")


async def test_the_clock_stands_still_while_timers_run(open_page: Any) -> None:
    settings = PageSettings(fixed_time=NOON)
    async with open_page("chance.html", settings=settings) as computer:
        await computer.load()
        assert await computer.page.evaluate("() => drawn.date") == "2026-02-03T12:00:30.000Z"
        await computer.page.evaluate("""() => {
          window.fired = []; window.begun = performance.now();
          setTimeout(() => fired.push('timer'), 50);
          requestAnimationFrame(() => fired.push('frame'));
        }""")
        await computer.perform(Wait(seconds=1))
        assert sorted(await computer.page.evaluate("() => fired")) == ["frame", "timer"]
        assert await computer.page.evaluate("() => Date.now() - drawn.now") == 0
        assert await computer.page.evaluate("() => performance.now() - begun") >= 900


async def test_chance_repeats_with_its_seed_and_only_with_it(open_page: Any) -> None:
    first, again = [await drawn(open_page, random_seed=7) for _ in range(2)]
    other, free = await drawn(open_page, random_seed=8), await drawn(open_page)
    for what in ("numbers", "values", "id"):
        assert first[what] == again[what]
        assert first[what] != other[what] and first[what] != free[what]
    assert all(0 <= number < 1 for number in first["numbers"])
    assert len(set(first["numbers"])) == 5
    pattern = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
    assert re.fullmatch(pattern, first["id"])


async def test_seeded_numbers_are_spread_evenly(open_page: Any) -> None:
    async with open_page("chance.html", settings=PageSettings(random_seed=0)) as computer:
        await computer.load()
        tenths = await computer.page.evaluate("""() => {
          const counts = Array(10).fill(0);
          for (let i = 0; i < 20000; i++) counts[Math.floor(Math.random() * 10)]++;
          return counts;
        }""")
        assert all(1850 < count < 2150 for count in tenths), tenths
        refused = """() => {
          try { crypto.getRandomValues(new Float32Array(1)); } catch (error) { return error.name; }
        }"""
        assert await computer.page.evaluate(refused) == "TypeMismatchError"


async def test_animations_and_transitions_are_over_at_once_without_an_edit(open_page: Any) -> None:
    async with open_page("chance.html", settings=PageSettings(animations=False)) as computer:
        await computer.load()
        before = await computer.page.content()
        assert "animation-duration: 0s" not in before
        await computer.page.evaluate("() => { moved.style.transform = 'translateX(50px)'; }")
        await computer.page.wait_for_function("() => ended.includes('animationend')")
        lefts = "() => [moved, spun].map(e => e.getBoundingClientRect().left)"
        assert await computer.page.evaluate(lefts) == [50, 0]
    async with open_page("chance.html") as computer:
        await computer.load()
        await computer.page.evaluate("() => { moved.style.transform = 'translateX(50px)'; }")
        assert (await computer.page.evaluate(lefts))[0] < 50


async def test_masks_are_painted_over_in_every_picture(open_page: Any) -> None:
    css = Size(width=160, height=210)
    masks = (PageBox(x=0, y=0, width=20, height=10), PageBox(x=-5, y=205, width=900, height=900))
    async with open_page("chance.html", viewport=css, scale=1.4, masks=masks) as computer:
        await computer.load()
        for size in ((224, 294), (224, 280)):
            with Image.open(io.BytesIO(await computer.screenshot())) as image:
                assert image.size == size
                colours = image.convert("RGB")
                assert colours.getpixel((10, 5)) == (255, 0, 255)
                assert colours.getpixel((220, size[1] - 2)) == (255, 0, 255)
                assert colours.getpixel((10, 22)) == (255, 0, 0)
            computer.fit(screen_space(css, 1.4, grid=28))
