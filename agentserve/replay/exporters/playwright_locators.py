"""Our elements as locators of Playwright, in Python."""

from __future__ import annotations

import re

from agentserve.core.elements import Chain, ElementTarget, Selector
from agentserve.core.secret_names import PLACEHOLDER
from agentserve.replay.exporters.python_text import call

_FRAME = re.compile(r"(?:^|[\s>+~/(|])i?frame(?![\w-])[^\s>+~/]*$")
"""A selector of CSS or XPath whose last element is a frame."""
_AMBIGUOUS = re.compile(r"^\s*(?:[a-zA-Z_0-9\-+:*]+\s*=|\(*//|\.\.|[\"'])|>>", re.ASCII)
"""CSS that Playwright takes for another engine's, unless told."""

_ENGINES = ("aria", "test_id", "css", "text", "xpath")
"""The likelier to hold on a changed page first."""


def locator(target: ElementTarget | None) -> str | None:
    """The expression of the selector that people would choose; None when there is none."""
    if target is None or not target.selectors:
        return None
    # a value that stands in a selector may be none there: quoted, or in an XPath
    chain = min(target.selectors, key=lambda chain: (_has_secret(chain), *_rank(chain[-1])))
    expression = "page"
    for selector in chain[:-1]:
        expression = _below(expression, selector)
        if selector.engine in ("css", "xpath") and _FRAME.search(selector.value):
            expression += ".content_frame"
    return _below(expression, chain[-1])


def position(target: ElementTarget | None) -> dict[str, float] | None:
    """Where in the element, in CSS px; None: its middle, or as good as that."""
    if target is None or target.offset is None:
        return None
    x, y = target.offset
    box = target.box
    if box is not None and abs(x - box.width / 2) <= 1 and abs(y - box.height / 2) <= 1:
        return None
    return {"x": round(x, 1), "y": round(y, 1)}


def _has_secret(chain: Chain) -> bool:
    return any(PLACEHOLDER.search(selector.value) for selector in chain)


def _rank(selector: Selector) -> tuple[int, bool]:
    nameless = selector.engine == "aria" and not (selector.role and selector.value)
    return _ENGINES.index("text" if nameless else selector.engine), selector.nth is not None


def _below(scope: str, selector: Selector) -> str:
    value, exact = selector.value, selector.exact or None
    match selector.engine:
        case "aria" if selector.role:
            found = call(
                f"{scope}.get_by_role",
                selector.role,
                name=value or None,
                exact=exact if value else None,
            )
        case "aria":
            # Playwright looks for names together with roles: what has a label, else what says it
            label = call(f"{scope}.get_by_label", value, exact=exact)
            found = f"{label}.or_({call(f'{scope}.get_by_text', value, exact=exact)}).first"
        case "text":
            found = call(f"{scope}.get_by_text", value, exact=exact)
        case "test_id":
            found = call(f"{scope}.get_by_test_id", value)
        case "xpath":
            found = call(f"{scope}.locator", f"xpath={value}")
        case _:
            plain = not _AMBIGUOUS.search(value)
            found = call(f"{scope}.locator", value if plain else f"css={value}")
    if selector.nth is None:
        return found
    return f"{found}.last" if selector.nth < 0 else f"{found}.nth({selector.nth})"
