"""A screenshot waits until the page rests, but not for ever."""

from __future__ import annotations

import io
import time
from typing import Any

from PIL import Image

from agentserve.browser.settle import _DOM_QUIET
from agentserve.core.actions import Hover


async def test_a_page_is_waited_for_through_requests_and_timers(open_page: Any) -> None:
    async with open_page("late.html") as computer:
        await computer.load()
        await computer.screenshot()
        assert await computer.page.inner_text("#state") == "ready"


async def test_a_page_that_never_rests_is_captured_after_the_timeout(open_page: Any) -> None:
    async with open_page("never.html", settle_timeout_s=0.5) as computer:
        begun = time.monotonic()
        await computer.load()
        image = await computer.screenshot()
        assert image.startswith(b"\x89PNG")
        assert 1.0 <= time.monotonic() - begun < 4.0  # two waits that ran into the timeout


async def test_a_page_at_rest_is_not_waited_for_twice(open_page: Any) -> None:
    async with open_page("target.html") as computer:
        await computer.load()
        evaluated = []
        page = computer.page
        real = page.evaluate

        async def counted(*args: Any) -> Any:
            evaluated.append(args)
            return await real(*args)

        page.evaluate = counted
        await computer.screenshot()
        assert [args for args in evaluated if args[0] == _DOM_QUIET] == []
        await computer.perform(Hover(x=1, y=1))
        assert [args[0] for args in evaluated].count(_DOM_QUIET) == 1


async def test_a_request_that_never_ends_delays_one_turn_only(open_page: Any) -> None:
    async with open_page("target.html", settle_timeout_s=0.6) as computer:
        await computer.load()
        await computer.page.route("**/hang", lambda route: None)
        async with computer.page.expect_request("**/hang"):
            await computer.page.evaluate("() => { fetch('hang'); }")
        begun = time.monotonic()
        await computer.screenshot()
        first = time.monotonic() - begun
        await computer.page.evaluate("() => { document.title = 'changed'; }")
        begun = time.monotonic()
        await computer.screenshot()
        assert first >= 0.6 > time.monotonic() - begun


async def test_a_chart_that_draws_itself_up_is_captured_when_it_is_complete(open_page: Any) -> None:
    async with open_page("chart.html") as computer:
        await computer.load()
        with Image.open(io.BytesIO(await computer.screenshot())) as image:
            assert image.convert("RGB").getpixel((198, 50)) == (0, 0, 0)
