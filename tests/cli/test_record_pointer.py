"""Where a person's pointer was is part of what was seen: pages look otherwise under it."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cli.test_record import recorded_by, replay, told
from playwright.async_api import Browser
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from agentserve.browser.computer import PlaywrightComputer
from agentserve.browser.launch import find_chromium
from agentserve.browser.person import PersonSession
from agentserve.cli.record_person import PersonOptions
from agentserve.core.actions import Click
from agentserve.core.screens import Size
from agentserve.replay import Recording
from agentserve.replay.bundle.verify import verify
from agentserve.replay.exporters import playwright_script
from agentserve.testing.server import LoopbackServer

PAGE = """<!doctype html><meta charset="utf-8"><title>Shop</title>
<style>
  body { margin: 0; font: 16px sans-serif }
  button, nav { position: absolute; left: 20px; width: 160px; height: 40px }
  button:hover { background: navy; color: white }
  nav { top: 100px } nav ul { display: none; margin: 0; padding: 8px 0 }
  nav:hover ul { display: block }
</style>
<button id="buy" style="top: 20px" onclick="said.textContent = 'bought'">Buy</button>
<nav>Account<ul><li onclick="said.textContent = 'signed out'">Sign out</li></ul></nav>
<p id="said" style="position: absolute; left: 220px; top: 20px">nothing yet</p>
"""
BUY, ACCOUNT, SIGN_OUT, NOWHERE = (60, 40), (60, 110), (60, 145), (320, 180)


async def page(request: Request) -> HTMLResponse:
    return HTMLResponse(PAGE)


@pytest.fixture(scope="module")
async def site() -> AsyncIterator[str]:
    async with LoopbackServer(Starlette(routes=[Route("/", page)])) as server:
        yield f"{server.url}/"


async def rest_at(computer: PlaywrightComputer, session: PersonSession, x: int, y: int) -> None:
    """Move there and wait until the page was looked at with the pointer there."""
    await computer.page.mouse.move(x, y)
    at = "outside" if min(x, y) < 0 else (x, y)
    async with asyncio.timeout(20):
        while session._view is None or session._view.pointer != at:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def click(computer: PlaywrightComputer, session: PersonSession, x: int, y: int) -> None:
    """As fast as no person is: nothing is looked at between the move and the click."""
    session.ready.clear()
    await computer.page.mouse.click(x, y)
    await asyncio.wait_for(session.ready.wait(), 20)


async def shops(computer: PlaywrightComputer, session: PersonSession) -> None:
    await asyncio.wait_for(session.ready.wait(), 20)
    await rest_at(computer, session, *NOWHERE)
    await click(computer, session, *BUY)  # seen with the pointer elsewhere
    await rest_at(computer, session, *BUY)  # and now with the pointer on it
    await rest_at(computer, session, *ACCOUNT)
    await click(computer, session, *SIGN_OUT)  # of a menu that is there while the pointer is
    await rest_at(computer, session, -1, -1)


@pytest.fixture(scope="module")
async def made(browser: Browser, site: str, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    out = tmp_path_factory.mktemp("recordings")
    options = PersonOptions(url=site, out=out, viewport=Size(width=420, height=240))
    recorded, recording = await recorded_by(browser, options, shops)
    assert recorded.refused == 0
    return recording


async def test_each_view_has_the_place_of_its_pointer(made: Recording) -> None:
    assert verify(made.path) == []
    assert [(step.performed, step.pointer) for step in made.steps] == [
        (Click(x=BUY[0], y=BUY[1]), NOWHERE),
        (Click(x=SIGN_OUT[0], y=SIGN_OUT[1]), ACCOUNT),
        (None, "outside"),
    ]
    before = made.aria(made.steps[1].aria or "")
    assert "bought" in before and "Sign out" in before
    assert "Sign out" not in made.aria(made.steps[2].aria or "")


async def test_a_pointer_that_rests_before_anybody_listens_is_found(
    browser: Browser, site: str, tmp_path: Path
) -> None:
    """A window opens under it: no event tells of it."""
    options = PersonOptions(url=site, out=tmp_path, viewport=Size(width=420, height=240))
    seen = []
    begin = PersonSession.begin

    async def rests(session: PersonSession) -> None:
        await session._computer.page.mouse.move(*ACCOUNT)
        await asyncio.sleep(0.1)
        await begin(session)

    async def clicks(computer: PlaywrightComputer, session: PersonSession) -> None:
        await asyncio.wait_for(session.ready.wait(), 20)
        seen.append(session._view)
        await click(computer, session, *BUY)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PersonSession, "begin", rests)
        _, recording = await recorded_by(browser, options, clicks)
    assert seen[0] is not None and "Sign out" in seen[0].aria
    first = recording.steps[0].pointer
    assert isinstance(first, tuple) and "Sign out" in recording.aria(recording.steps[0].aria or "")
    report = await replay(browser, recording, site)
    assert report.same, told(report)


async def test_a_replay_puts_the_pointer_where_it_was(
    browser: Browser, site: str, made: Recording
) -> None:
    report = await replay(browser, made, site)
    assert report.same, told(report)


async def test_an_exported_script_opens_the_menu_as_well(made: Recording, tmp_path: Path) -> None:
    given = playwright_script.give(made)
    assert not any("pointer" in told for told in given.lost)
    ((name, script),) = given.files.items()
    (tmp_path / name).write_bytes(script)
    own = os.environ | {"CHROMIUM": find_chromium() or ""}
    running = await asyncio.create_subprocess_exec(
        sys.executable, tmp_path / name, env=own, stderr=asyncio.subprocess.PIPE
    )
    _, errors = await asyncio.wait_for(running.communicate(), 90)
    assert running.returncode == 0, errors.decode()


async def test_without_the_pointer_the_same_replay_differs(
    browser: Browser, site: str, made: Recording
) -> None:
    steps = tuple(step.model_copy(update={"pointer": None}) for step in made.steps)
    report = await replay(browser, dataclasses.replace(made, steps=steps), site)
    assert [step.index for step in report.steps if not step.same] == [1, 2]
