"""Doing what recordings hold: actions aimed at an element, and acts of people and other tools."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from playwright.async_api import Error as PlaywrightError

from agentserve.browser import element_acts
from agentserve.browser.acting import Actor
from agentserve.browser.elements import Found, find
from agentserve.browser.tabs import quote
from agentserve.core.actions import POINT_FIELDS, Key, Type
from agentserve.core.actions.recorded import (
    ClickElement,
    CloseTab,
    Fill,
    Forward,
    HoverElement,
    KeyDown,
    KeyUp,
    OpenTab,
    RecordedAction,
    Reload,
    Resize,
    ScrollTo,
    SwitchTab,
    Unsupported,
    WaitFor,
)
from agentserve.core.elements import ElementTarget, PageBox
from agentserve.core.screens import Size

APPEAR_TIMEOUT_S = 3.0
"""How long an element may take to appear that the page is not yet known to have."""
_POLL_S = 0.1
_FOCUSED = Key | Type | KeyDown
"""Of a step with a target they are for that, whatever had the focus."""

_IN_VIEW = """element => {
  const box = element.getBoundingClientRect();
  const x = box.x + box.width / 2, y = box.y + box.height / 2;
  return x >= 0 && y >= 0 && x < innerWidth && y < innerHeight;
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
    point: tuple[int, int] | None = None
    """Of an action that names none: where its element is, or was, in CSS px."""


async def aimed(
    actor: Actor,
    action: RecordedAction,
    targets: tuple[ElementTarget | None, ElementTarget | None],
    viewport: Size,
) -> Aimed:
    """Look for the elements of an action that has points, or is done to an element. One that is not
    found leaves its point as it was recorded."""
    target = targets[0]
    if isinstance(action, Fill | ScrollTo | _FOCUSED):
        found = await find_when_there(actor, target)
        needed = isinstance(action, Fill) or _names_it_alone(target)
        return Aimed(action, found, missing=needed and found is None)
    if isinstance(action, ClickElement | HoverElement):
        found = await find_when_there(actor, target)
        box = found.box if found is not None else target and target.box
        point = aim(target, box, viewport) if target is not None and box is not None else None
        return Aimed(action, found, missing=point is None, point=point)
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
        elif _names_it_alone(target):
            missing = True
    return Aimed(action.model_copy(update=moved), next(iter(all_found), None), missing)


def _names_it_alone(target: ElementTarget | None) -> bool:
    """Whether nothing but selectors tells where the element is, or was."""
    return target is not None and bool(target.selectors) and target.box is None


async def act_recorded(actor: Actor, aimed: Aimed, target: ElementTarget | None) -> None:
    """Raises Playwright's errors and BrowserFailed; what cannot be done is noted with the tabs."""
    page, action = actor.page, aimed.action
    if aimed.missing:
        actor.fail(f"The {action.kind} was not done: its element is not there.")
        return
    if isinstance(action, _FOCUSED) and aimed.found is not None:
        await element_acts.focus(aimed.found.handle)
    match action:
        case Fill() | ClickElement() | HoverElement() | ScrollTo():
            await _act_on_element(actor, aimed)
        case KeyDown(key=key):
            await page.keyboard.down(key)
        case KeyUp(key=key):
            await page.keyboard.up(key)
        case Resize(size=size):
            await page.set_viewport_size({"width": size.width, "height": size.height})
        case WaitFor():
            await _wait_for(actor, action, target)
        case Forward() | Reload() | OpenTab() | SwitchTab() | CloseTab():
            await _act_on_tabs(actor, action)
        case Unsupported(what=what):
            actor.fail(f"Not done, it has no equal here: {quote(what)}.")
        case _:
            await actor.act(action)


async def _act_on_element(actor: Actor, aimed: Aimed) -> None:
    element = None if aimed.found is None else aimed.found.handle
    match aimed.action:
        case Fill(value=value):
            assert element is not None
            await element_acts.fill(actor, element, value)
        case ScrollTo():
            await element_acts.scroll_to(actor.page, element, aimed.action)
        case _:
            assert aimed.point is not None
            await element_acts.point_at(actor.page, aimed.action, aimed.point)


async def _act_on_tabs(
    actor: Actor, action: Forward | Reload | OpenTab | SwitchTab | CloseTab
) -> None:
    match action:
        case Forward():
            await actor.go_forward()
        case Reload():
            await actor.reload()
        case OpenTab(url=url):
            await actor.open_tab(url)
        case SwitchTab(index=index):
            await actor.switch_tab(index)
        case CloseTab():
            await actor.close_tab()


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
            found = await find(actor.page, target)
            reached = (found is not None) == action.visible
            if found is not None and action.visible:
                reached = await element_acts.says(found.handle, action)
        if reached:
            return
        if asyncio.get_running_loop().time() > deadline:
            what = "condition" if action.expression is not None else "element"
            actor.fail(f"The {what} was waited for {action.timeout_s:g} s in vain.")
            return
        await asyncio.sleep(_POLL_S)
