"""What is done to an element that was found: clicks, values, the focus, scrolling."""

from __future__ import annotations

from playwright.async_api import ElementHandle, Page

from agentserve.browser.acting import Actor
from agentserve.core.actions.recorded import ClickElement, HoverElement, ScrollTo, WaitFor

FILL_TIMEOUT_MS = 2000

_FOCUS = "element => { if (!element.matches(':focus')) (element.control ?? element).focus(); }"
_VALUE = """element => {
  const field = element.control ?? element;
  return field.matches('input[type=checkbox], input[type=radio]')
    ? String(field.checked) : field.value;
}"""
_KIND = """element => {
  element = element.control ?? element;  // of a label: Playwright fills in its field
  if (element.matches('select')) return 'select';
  if (element.matches('input[type=checkbox], input[type=radio]')) return 'check';
  if (element.matches('input[type=range], input[type=color], input[type=date], input[type=time], '
    + 'input[type=month], input[type=week], input[type=datetime-local]')) return 'text';
  return element.matches('input, textarea') || element.isContentEditable ? 'text' : '';
}"""


async def point_at(page: Page, action: ClickElement | HoverElement, point: tuple[int, int]) -> None:
    """At a point in CSS px, with the keys held that the action names."""
    if isinstance(action, HoverElement):
        await page.mouse.move(*point)
        return
    for name in action.modifiers:
        await page.keyboard.down(name)
    try:
        await page.mouse.click(*point, button=action.button, click_count=action.clicks)
    finally:
        for name in reversed(action.modifiers):
            await page.keyboard.up(name)


async def scroll_to(page: Page, element: ElementHandle | None, action: ScrollTo) -> None:
    """The element, or the page."""
    if element is None:
        await page.evaluate("([x, y]) => scrollTo(x, y)", [action.x, action.y])
    else:
        await element.evaluate("(element, [x, y]) => element.scrollTo(x, y)", [action.x, action.y])


async def focus(element: ElementHandle) -> None:
    """Give it the focus, or the field that it labels, where that has not got it already."""
    await element.evaluate(_FOCUS)


async def fill(actor: Actor, element: ElementHandle, value: str) -> None:
    """Set the value as a person would have left it: Playwright sends the events of it."""
    match await element.evaluate(_KIND):
        case "select":
            await element.select_option(value=value, timeout=FILL_TIMEOUT_MS)
        case "check":
            await element.set_checked(value == "true", timeout=FILL_TIMEOUT_MS, force=True)
        case "text":
            await element.fill(value, timeout=FILL_TIMEOUT_MS, force=True)
        case _:
            actor.fail("Nothing was filled in: the element takes no value.")


async def says(element: ElementHandle, action: WaitFor) -> bool:
    """Whether the element shows and holds what is waited for."""
    if action.text is not None:
        shown = " ".join(str(await element.evaluate("element => element.innerText")).split())
        if " ".join(action.text.split()) not in shown:
            return False
    return action.value is None or await element.evaluate(_VALUE) == action.value
