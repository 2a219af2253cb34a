"""Our selectors as Chrome's Recorder writes them; importers/chrome_selectors reads them."""

from __future__ import annotations

from agentserve.core.elements import ElementTarget, Selector
from agentserve.replay.account import Account
from agentserve.replay.importers.playwright_selectors import css_string


def selectors_of(target: ElementTarget | None, account: Account, step: int) -> list[list[str]]:
    """The alternatives of a target, each as a chain; empty when Chrome can use none."""
    if target is None:
        return []
    alternatives = []
    for chain in target.selectors:
        parts = [_text(selector) for selector in chain]
        if None in parts:
            account.lose("a selector with a number has no equal in Chrome", step)
            continue
        alternatives.append([part for part in parts if part is not None])
        if any(not one.exact and one.engine == "aria" for one in chain):
            account.lose("Chrome takes the name of an element whole and in its case", step)
        if any(one.exact and one.engine == "text" for one in chain):
            account.lose("Chrome finds a text also as a part of a longer one", step)
    return alternatives


def _text(selector: Selector) -> str | None:
    value, nth = selector.value, selector.nth
    if selector.engine == "xpath":
        if nth is not None:
            value = f"({value})[{'last()' if nth < 0 else nth + 1}]"
        return f"xpath/{value}"
    if nth not in (None, 0):  # Chrome takes the first that fits
        return None
    match selector.engine:
        case "aria":
            role = f'[role="{css_string(selector.role)}"]' if selector.role else ""
            return f"aria/{value}{role}"
        case "text":
            return f"text/{value}"
        case "test_id":
            return f'[data-testid="{css_string(value)}"]'
        case _:
            return value
