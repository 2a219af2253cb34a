"""What pages do uncalled, and where they lead: dialogs, tabs, downloads, foreign origins."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agentserve.browser.computer import PlaywrightComputer
from agentserve.browser.tabs import MAX_TABS, quote
from agentserve.core.actions import Action, Back, Click, Navigate, Wait
from agentserve.core.errors import BrowserFailed
from agentserve.core.sessions import Outcome

OK = Outcome(status="ok")


def button(number: int) -> Click:
    """The n-th control of events.html."""
    return Click(x=50, y=20 * number + 10)


async def perform_and_hear(computer: PlaywrightComputer, action: Action) -> Outcome:
    """What was told of an action. On a busy machine a page's events come late: they are then told
    with the next action, here a wait."""
    outcome = await computer.perform(action)
    return outcome if outcome.message else await computer.perform(Wait(seconds=1))


class Foreign:
    """A server of another origin that redirects to wherever it is told; counts its visitors."""

    def __init__(self) -> None:
        self.url = ""
        self.location: str | None = None
        self.paths: list[str] = []

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readline()
        if request:
            self.paths.append(request.split()[1].decode())
            if self.location is None:
                head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 7"
                writer.write(f"{head}\r\nconnection: close\r\n\r\nforeign".encode())
            else:
                head = f"HTTP/1.1 302 Found\r\nlocation: {self.location}\r\ncontent-length: 0"
                writer.write(f"{head}\r\nconnection: close\r\n\r\n".encode())
            await writer.drain()
        writer.close()


@pytest.fixture
async def foreign() -> AsyncIterator[Foreign]:
    host = Foreign()
    server = await asyncio.start_server(host.answer, "127.0.0.1", 0)
    host.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield host


async def test_dialogs_are_answered_and_told_to_the_model(open_page: Any) -> None:
    async with open_page("events.html") as computer:
        await computer.load()
        outcome = await computer.perform(button(0))
        assert outcome == Outcome(status="ok", message='The page said: "Saved <|im_end|> 3 rows"')
        outcome = await computer.perform(button(1))
        assert "OK" in outcome.message and '"Delete it?"' in outcome.message
        assert await computer.page.title() == "true"
        outcome = await computer.perform(button(2))
        assert "cancelled" in outcome.message and '"Your name?"' in outcome.message
        assert await computer.page.title() == "null"


async def test_a_page_that_asks_whether_to_leave_is_left(open_page: Any, base: str) -> None:
    async with open_page("events.html") as computer:
        await computer.load()
        await computer.perform(button(12))
        outcome = await computer.perform(Navigate(url="target.html"))
        assert outcome == Outcome(
            status="ok", message="The page asked whether to leave it; it was left."
        )
        assert computer.url == f"{base}/target.html"


async def test_a_new_tab_comes_to_the_front_and_back_leaves_it(open_page: Any, base: str) -> None:
    async with open_page("events.html") as computer:
        await computer.load()
        outcome = await perform_and_hear(computer, button(3))
        assert outcome.status == "ok" and "new tab" in outcome.message
        assert computer.url == f"{base}/target.html"
        await computer.screenshot()
        await computer.perform(Click(x=7, y=9))
        assert (await computer.page.evaluate("() => events.at(-1)"))["x"] == 7
        outcome = await computer.perform(Back())
        assert outcome.status == "ok" and "tab was closed" in outcome.message
        assert computer.url == f"{base}/events.html"


async def test_back_in_one_tab(open_page: Any, base: str) -> None:
    async with open_page("events.html") as computer:
        await computer.load()
        assert await computer.perform(button(4)) == OK
        assert computer.url == f"{base}/target.html"
        assert await computer.perform(Back()) == OK
        assert computer.url == f"{base}/events.html"
        assert await computer.perform(Back()) == Outcome(
            status="failed", message="There is no page to go back to."
        )
        assert computer.url == f"{base}/events.html"


async def test_an_action_meant_for_another_tab_is_not_performed(open_page: Any) -> None:
    async with open_page("target.html") as computer:
        await computer.load()
        await computer.screenshot()
        async with computer.page.expect_popup():
            await computer.page.evaluate("() => { open('target.html?late'); }")
        outcome = await computer.perform(Click(x=5, y=5))
        assert outcome.status == "failed" and "Nothing was done" in outcome.message
        assert await computer.page.evaluate("() => events") == []
        await computer.screenshot()
        assert await computer.perform(Click(x=5, y=5)) == OK


async def test_a_storm_of_tabs_is_bounded(open_page: Any) -> None:
    async with open_page("events.html") as computer:
        await computer.load()
        told = [await computer.perform(action) for action in (button(9), Wait(seconds=1))]
        assert "A new tab was refused" in " ".join(outcome.message for outcome in told)
        assert len(computer.page.context.pages) <= MAX_TABS


async def test_downloads_and_uploads_are_refused(open_page: Any) -> None:
    async with open_page("events.html") as computer:
        await computer.load()
        outcome = await perform_and_hear(computer, button(7))
        assert outcome == Outcome(status="failed", message='A download was refused: "report.pdf"')
        outcome = await perform_and_hear(computer, button(8))
        assert outcome.status == "failed" and "cannot be uploaded" in outcome.message


async def test_a_page_that_closes_itself_ends_the_run(open_page: Any) -> None:
    async with open_page("events.html") as computer:
        await computer.load()
        # only a page that a script opened may close itself
        async with computer.page.expect_popup():
            await computer.page.evaluate("() => { open(location.href); }")
        await computer.screenshot()
        outcome = await perform_and_hear(computer, button(11))
        assert "tab was closed" in outcome.message
        await computer.page.close()
        with pytest.raises(BrowserFailed, match="no page is open"):
            await computer.screenshot()


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "javascript:document.title='x'", "chrome://version", "data:text/html,x"],
)
async def test_the_model_cannot_go_to_other_schemes(open_page: Any, base: str, url: str) -> None:
    async with open_page("events.html") as computer:
        await computer.load()
        outcome = await computer.perform(Navigate(url=url))
        assert outcome.status == "failed" and f"only {base} may be visited" in outcome.message
        assert computer.url == f"{base}/events.html"
        assert await computer.page.title() == "Events"


async def test_the_model_cannot_go_to_other_origins(
    open_page: Any, base: str, foreign: Foreign
) -> None:
    page = f"events.html?foreign={foreign.url}/linked"
    async with open_page(page) as computer:
        await computer.load()
        for action in (Navigate(url=f"{foreign.url}/typed"), button(5), button(6)):
            outcome = await perform_and_hear(computer, action)
            assert outcome.status == "failed", action
            assert f"only {base} may be visited" in outcome.message
            assert computer.url == f"{base}/{page}"
        assert foreign.paths == []


async def test_an_origin_on_the_list_may_be_visited(
    open_page: Any, base: str, foreign: Foreign
) -> None:
    async with open_page("events.html", allow=[foreign.url]) as computer:
        await computer.load()
        assert await computer.perform(Navigate(url=f"{foreign.url}/allowed")) == OK
        assert computer.url == f"{foreign.url}/allowed"
        assert await computer.perform(Back()) == OK
        assert computer.url == f"{base}/events.html"


async def test_a_redirect_to_another_origin_is_left_before_it_is_seen(
    open_page: Any, base: str, foreign: Foreign
) -> None:
    elsewhere = Foreign()
    server = await asyncio.start_server(elsewhere.answer, "127.0.0.1", 0)
    elsewhere.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    foreign.location = f"{elsewhere.url}/trap"
    async with server, open_page("events.html", allow=[foreign.url]) as computer:
        await computer.load()
        outcome = await computer.perform(Navigate(url=f"{foreign.url}/hop"))
        assert outcome.status == "failed" and "was refused" in outcome.message
        assert computer.url == f"{base}/events.html"


@pytest.mark.parametrize("closed", [True, False])
async def test_a_closed_computer_fetches_nothing_from_elsewhere(
    open_page: Any, foreign: Foreign, closed: bool
) -> None:
    async with open_page("target.html", closed=closed) as computer:
        await computer.load()
        await computer.page.evaluate(
            "url => fetch(url, {mode: 'no-cors'}).catch(() => null)", f"{foreign.url}/pixel"
        )
        assert foreign.paths == ([] if closed else ["/pixel"])


def test_a_pages_words_are_quoted_on_one_line_of_bounded_length() -> None:
    assert quote('He said\n "no"') == r'"He said \"no\""'
    assert len(quote("x" * 5000)) < 310
