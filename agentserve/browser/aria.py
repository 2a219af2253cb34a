"""The aria snapshot of a page: what it says to people who do not see it."""

from __future__ import annotations

import re

from playwright.async_api import Page
from pydantic_core import from_json

TIMEOUT_S = 10.0
MAX_CHARS = 200_000
"""Of UTF-8 that is less than a recording keeps of one."""
HIDDEN = "••••••••"
_FIELD = re.compile(r"(?P<field>\s*- textbox\b.*?): (?P<value>(?:\"(?:[^\"\\]|\\.)*\"|[^\"].*))$")

_PASSWORDS = """() => {
  const values = [], roots = [document];
  for (let left = 20000; roots.length && left > 0;) {
    for (const element of roots.pop().querySelectorAll('*')) {
      if (left-- <= 0) break;
      if (element.shadowRoot) roots.push(element.shadowRoot);
      if (element.matches('input[type=password]') && element.value) values.push(element.value);
    }
  }
  return values;
}"""


async def aria_snapshot(page: Page) -> str:
    """As YAML, with what stands in password fields hidden: Playwright writes it out.

    Raises Playwright's errors.
    """
    snapshot = await page.locator("body").aria_snapshot(timeout=TIMEOUT_S * 1000)
    return without(snapshot[:MAX_CHARS], set(await page.evaluate(_PASSWORDS)))


def without(snapshot: str, values: set[str]) -> str:
    """The snapshot with text fields that hold one of the values hidden. Pure."""
    if not values:
        return snapshot
    shown = {_squeezed(value) for value in values}
    return "\n".join(_hidden(line, shown) for line in snapshot.split("\n"))


def _hidden(line: str, shown: set[str]) -> str:
    found = _FIELD.match(line)
    if found is None:
        return line
    value = found["value"]
    if value.startswith('"'):
        try:
            value = from_json(value)
        except ValueError:
            return line
    return f"{found['field']}: {HIDDEN}" if _squeezed(value) in shown else line


def _squeezed(text: str) -> str:
    return " ".join(text.split())
