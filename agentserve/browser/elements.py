"""The element at a point, and the element of a recording on the page as it is now."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from playwright.async_api import ElementHandle, FrameLocator, Locator, Page
from playwright.async_api import Error as PlaywrightError
from pydantic import ValidationError

from agentserve.browser.worlds import Worlds
from agentserve.core.elements import Chain, ElementTarget, PageBox, Selector

FIND_TIMEOUT_S = 5.0
"""Longest look for an element with all of its selectors."""
MOST_MATCHES = 200
"""A selector with more is of no use: they are not looked at one by one."""

_ELEMENT_AT = (Path(__file__).parent / "scripts" / "element_at.js").read_text(encoding="utf-8")
_NAMED_ROLES = ("button", "link", "textbox", "searchbox", "combobox", "checkbox", "radio", "tab",
                "menuitem", "option", "switch", "heading", "img")  # fmt: skip
"""Looked through for an accessible name whose role is not recorded."""
_TEXT = """element => {
  const text = element.matches('input, textarea, select')
    ? element.getAttribute('placeholder') ?? '' : element.textContent;
  return text.slice(0, 4000).replace(/\\s+/g, ' ').trim().slice(0, 200);
}"""
"""As element_at.js says it."""
_FRAMES = ("IFRAME", "FRAME")

Scope = Page | FrameLocator | Locator


@dataclass(frozen=True)
class Found:
    """An element that is there, and seen."""

    handle: ElementHandle
    box: PageBox
    """In the viewport, in CSS px; outside of it where the page is scrolled."""
    chain: Chain
    """What found it."""
    text: str
    """What it shows, as ElementTarget.text has it."""


async def element_at(worlds: Worlds, page: Page, x: float, y: float) -> ElementTarget | None:
    """The deepest element under a point in CSS px, through open shadow roots and frames of the same
    origin; for a part of a button, a link or the like, the whole of that.

    Each of its selectors finds nothing else at this moment. None when there is no element, and when
    the page does not let itself be asked: who looks goes on without.
    """
    try:
        found = await worlds.call(page, _ELEMENT_AT, x, y)
        return None if found is None else ElementTarget.model_validate(found)
    except (PlaywrightError, TimeoutError, ValidationError):
        return None


async def find(page: Page, target: ElementTarget) -> Found | None:
    """The target's element, by the first of its selector chains that finds one visible element and
    no other. None when none does within FIND_TIMEOUT_S."""
    try:
        async with asyncio.timeout(FIND_TIMEOUT_S):
            for chain in target.selectors:
                found = await _by_chain(page, chain)
                if found is not None:
                    return found
    except TimeoutError:
        pass
    return None


async def _by_chain(page: Page, chain: Chain) -> Found | None:
    """Selectors are a recording's: one that is none, or a page that changes, finds nothing."""
    try:
        scope: Scope = page
        for host in chain[:-1]:
            locator = await _only(scope, host)
            if locator is None:
                return None
            tag = await locator.evaluate("element => element.tagName")
            scope = locator.content_frame if tag in _FRAMES else locator
        locator = await _only(scope, chain[-1])
        handle = None if locator is None else await locator.element_handle(timeout=1000)
        box = None if handle is None else await handle.bounding_box()
        if handle is None or box is None:
            return None
        text = await handle.evaluate(_TEXT)
        return Found(handle, PageBox(**box), chain, str(text)[:200])
    except PlaywrightError:
        return None


async def _only(scope: Scope, selector: Selector) -> Locator | None:
    """The one visible element of a selector."""
    for locator in _locators(scope, selector):
        if not 1 <= await locator.count() <= MOST_MATCHES:
            continue
        if selector.nth is not None:
            locator = locator.nth(selector.nth)
        visible = locator.filter(visible=True)
        if await visible.count() == 1:
            return visible
    return None


def _locators(scope: Scope, selector: Selector) -> Iterator[Locator]:
    value, exact = selector.value, selector.exact
    match selector.engine:
        case "css" | "xpath":
            yield scope.locator(f"{selector.engine}={value}")
        case "text":
            yield scope.get_by_text(value, exact=exact)
        case "test_id":
            yield scope.get_by_test_id(value)
        case "aria" if selector.role:
            # the role is free text of a recording; what is none matches nothing
            yield scope.get_by_role(selector.role, name=value or None, exact=exact)  # type: ignore[arg-type]
        case "aria":
            by_role = scope.get_by_role(_NAMED_ROLES[0], name=value, exact=exact)
            for role in _NAMED_ROLES[1:]:
                by_role = by_role.or_(scope.get_by_role(role, name=value, exact=exact))
            yield by_role
            yield scope.get_by_label(value, exact=exact)
            yield scope.get_by_text(value, exact=exact)
