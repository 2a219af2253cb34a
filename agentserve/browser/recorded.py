"""Doing what recordings hold: actions aimed at an element, and acts of people and other tools."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from playwright.async_api import ElementHandle
from playwright.async_api import Error as PlaywrightError

from agentserve.browser.acting import Actor
from agentserve.browser.elements import Found, find
from agentserve.browser.tabs import quote
from agentserve.core.actions import POINT_FIELDS
from agentserve.core.actions.recorded import (
    CloseTab,
    Fill,
    Forward,
    KeyDown,
    KeyUp,
    OpenTab,
    RecordedAction,
    Reload,
    Resize,
    Unsupported,
    WaitFor,
)
from agentserve.core.elements import ElementTarget, PageBox
from agentserve.core.screens import Size

APPEAR_TIMEOUT_S = 3.0
"""How long an element may take to appear that the page is not yet known to have."""
_POLL_S = 0.1

_IN_VIEW = """element => {
  const box = element.getBoundingClientRect();
  const x = box.x + box.width / 2, y = box.y + box.height / 2;
  return x >= 0 && y >= 0 && x < innerWidth && y < innerHeight;
}"""
_KIND = """element => {
  if (element.matches('select')) return 'select';
  if (element.matches('input[type=checkbox], input[type=radio]')) return 'check';
  if (element.matches('input[type=range], input[type=color], input[type=date], input[type=time], '
    + 'input[type=month], input[type=week], input[type=datetime-local]')) return 'text';
  return element.matches('input, textarea') || element.isContentEditable ? 'text' : '';
}"""


async def find_when_there(actor: Actor, target: ElementTarget | None) -> Found | None:
    """The target's element, now or within APPEAR_TIMEOUT_S, brought into view."""
    if target is None or not target.selectors:
        return None
    deadline = asyncio.get_running_loop().time() + APPEAR_TIMEOUT_S
    while True:
        found = await find(actor.page, target)
        if found is not None:
            return await _in_view(found)
        if asyncio.get_running_loop().time() > deadline:
            return None
        await asyncio.sleep(_POLL_S)


async def _in_view(found: Found) -> Found | None:
    try:
        if not await found.handle.evaluate(_IN_VIEW):
            await found.handle.scroll_into_view_if_needed(timeout=1000)
        box = await found.handle.bounding_box()
    except PlaywrightError:
        return None  # it went meanwhile
    return None if box is None else replace(found, box=PageBox(**box))


def aim(target: ElementTarget, box: PageBox, viewport: Size) -> tuple[int, int]:
    """Where to act on an element that is in ``box`` now: at the recorded offset, scaled when its
    size has changed, inside of the viewport. CSS px. Pure."""
    if target.offset is None:
        x, y = box.width / 2, box.height / 2
    else:
        x, y = target.offset
        if target.box is not None and target.box.width and target.box.height:
            x *= box.width / target.box.width
            y *= box.height / target.box.height
        elif target.box is None and not (0 <= x <= box.width and 0 <= y <= box.height):
            x, y = box.width / 2, box.height / 2
    return (
        min(max(round(box.x + x), 0), viewport.width - 1),
        min(max(round(box.y + y), 0), viewport.height - 1),
    )


@dataclass(frozen=True)
class Aimed:
    """A recorded action with its elements found."""

    action: RecordedAction
    """Its points are where they are now."""
    found: Found | None
    missing: bool
    """An element is not there, and no point of the recording tells where it was."""


async def aimed(
    actor: Actor,
    action: RecordedAction,
    targets: tuple[ElementTarget | None, ElementTarget | None],
    viewport: Size,
) -> Aimed:
    """Look for the elements of an action that has points or is a Fill. One that is not found leaves
    its point as it was recorded."""
    if isinstance(action, Fill):
        found = await find_when_there(actor, targets[0])
        return Aimed(action, found, missing=found is None)
    moved: dict[str, int] = {}
    all_found: list[Found | None] = []
    missing = False
    for (x_name, y_name), target in zip(POINT_FIELDS, targets, strict=True):
        if target is None or not hasattr(action, x_name):
            continue
        found = await find_when_there(actor, target)
        all_found.append(found)
        if found is not None:
            moved[x_name], moved[y_name] = aim(target, found.box, viewport)
        elif target.selectors and target.box is None:
            missing = True
    return Aimed(action.model_copy(update=moved), next(iter(all_found), None), missing)


async def act_recorded(actor: Actor, aimed: Aimed, target: ElementTarget | None) -> None:
    """Raises Playwright's errors and BrowserFailed; what cannot be done is noted with the tabs."""
    page, action = actor.page, aimed.action
    if aimed.missing:
        actor.fail(f"The {action.kind} was not done: its element is not there.")
        return
    match action:
        case Fill(value=value):
            assert aimed.found is not None
            await _fill(actor, aimed.found.handle, value)
        case KeyDown(key=key):
            await page.keyboard.down(key)
        case KeyUp(key=key):
            await page.keyboard.up(key)
        case Resize(size=size):
            await page.set_viewport_size({"width": size.width, "height": size.height})
        case WaitFor():
            await _wait_for(actor, action, target)
        case Forward():
            await actor.go_forward()
        case Reload():
            await actor.reload()
        case OpenTab(url=url):
            await actor.open_tab(url)
        case CloseTab():
            await actor.close_tab()
        case Unsupported(what=what):
            actor.fail(f"Not done, it has no equal here: {quote(what)}.")
        case _:
            await actor.act(action)


async def _fill(actor: Actor, element: ElementHandle, value: str) -> None:
    """Set the value as a person would have left it: Playwright sends the events of it."""
    limit = 2000
    match await element.evaluate(_KIND):
        case "select":
            await element.select_option(value=value, timeout=limit)
        case "check":
            await element.set_checked(value == "true", timeout=limit, force=True)
        case "text":
            await element.fill(value, timeout=limit, force=True)
        case _:
            actor.fail("Nothing was filled in: the element takes no value.")


async def _wait_for(actor: Actor, action: WaitFor, target: ElementTarget | None) -> None:
    deadline = asyncio.get_running_loop().time() + action.timeout_s
    if action.expression is None and (target is None or not target.selectors):
        actor.fail("There is nothing to wait for.")
        return
    while True:
        if action.expression is not None:
            reached = bool(await actor.page.evaluate(f"() => !!({action.expression}\n)"))
        else:
            assert target is not None
            reached = (await find(actor.page, target) is not None) == action.visible
        if reached:
            return
        if asyncio.get_running_loop().time() > deadline:
            what = "condition" if action.expression is not None else "element"
            actor.fail(f"The {what} was waited for {action.timeout_s:g} s in vain.")
            return
        await asyncio.sleep(_POLL_S)
