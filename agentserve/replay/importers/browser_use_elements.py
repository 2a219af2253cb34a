"""The element that an action of browser-use was aimed at, as its history tells of it."""

from __future__ import annotations

from typing import Any

from agentserve.core.elements import ElementTarget, PageBox, Selector
from agentserve.replay.account import shortened
from agentserve.replay.bundle.sense import MAX_PX
from agentserve.replay.importers.password_fields import is_password
from agentserve.replay.importers.sources import text_in

_MAX_WORDS = 2000
_ROLES = {"a": "link", "button": "button", "select": "combobox", "textarea": "textbox"}
"""Of elements that say no role themselves and have always the same."""
_NAMING = ("id", "name", "aria-label", "placeholder", "title", "href")
"""Attributes that single an element out, the surest first."""


def element_of(told: Any) -> ElementTarget | None:
    """The target that a DOMInteractedElement describes, also one of an older version; None when it
    tells nothing to find an element by, nor where it was."""
    if not isinstance(told, dict):
        return None
    tag = text_in(told, "node_name", "tag_name").lower()[:_MAX_WORDS]
    attributes = told.get("attributes")
    attributes = attributes if isinstance(attributes, dict) else {}
    name = text_in(told, "ax_name") or text_in(attributes, "aria-label")
    selectors = [
        *_by_test_id(attributes),
        *_by_role(text_in(attributes, "role") or _ROLES.get(tag, ""), name),
        *_by_attribute(tag, attributes),
        *_selector("css", text_in(told, "css_selector")),
        *_by_path(text_in(told, "x_path", "xpath")),
    ]
    box = _box(told.get("bounds"))
    if not selectors and box is None:
        return None
    return ElementTarget(
        selectors=tuple((one,) for one in selectors),
        box=box,
        tag=tag,
        text=shortened(name, _MAX_WORDS),
    )


def is_password_field(told: Any) -> bool:
    """Whether such an element is a password's field."""
    attributes = told.get("attributes") if isinstance(told, dict) else None
    return isinstance(attributes, dict) and is_password(attributes)


def _selector(engine: Any, value: str, role: str | None = None) -> list[Selector]:
    """None for what is empty, or too long to be one."""
    if not 0 < len(value) <= _MAX_WORDS:
        return []
    return [Selector(engine=engine, value=value, role=role)]


def _by_test_id(attributes: dict[str, Any]) -> list[Selector]:
    return _selector("test_id", text_in(attributes, "data-testid"))


def _by_role(role: str, name: str) -> list[Selector]:
    return _selector("aria", name, role) if 0 < len(role) <= _MAX_WORDS else []


def _by_attribute(tag: str, attributes: dict[str, Any]) -> list[Selector]:
    plain = tag if tag.replace("-", "").isalnum() and tag.isascii() else ""
    return [
        selector
        for attribute in _NAMING
        if (value := text_in(attributes, attribute))
        for selector in _selector("css", f'{plain}[{attribute}="{_escaped(value)}"]')
    ]


def _escaped(text: str) -> str:
    """Within the quotes of a CSS string; what CSS must not see raw is written by its number."""
    return "".join(
        f"\\{ord(char):x} " if char in '"\\' or ord(char) < 32 or ord(char) == 127 else char
        for char in text
    )


def _by_path(path: str) -> list[Selector]:
    """browser-use's paths begin at the document, without a slash."""
    return _selector("xpath", path if not path or path.startswith("/") else f"/{path}")


def _box(bounds: Any) -> PageBox | None:
    if not isinstance(bounds, dict):
        return None
    sides = [bounds.get(side) for side in ("x", "y", "width", "height")]
    if not all(_finite(side) for side in sides) or min(sides[2:]) < 0:
        return None
    x, y, width, height = (float(side) for side in sides)
    return PageBox(x=x, y=y, width=width, height=height)


def _finite(value: Any) -> bool:
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return plain and abs(value) <= MAX_PX
