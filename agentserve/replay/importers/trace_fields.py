"""Which calls of a Playwright trace typed into a password's field, as its DOM snapshots show.

A snapshot is the page as nested lists, ``["INPUT", {"type": "password", …}, …]``; what has not
changed since an earlier one is a number in place of it. The element of a call is marked, and a
field that was typed into has changed: both stand there whole.
"""

from __future__ import annotations

import re
from typing import Any

from agentserve.replay.importers.password_fields import is_password

_TARGET = "__playwright_target__"
_VALUE = "__playwright_value_"
_RESOLVED = re.compile(r'\bresolved to <input\b[^>]* type="password"', re.IGNORECASE)


def typed_by(params: dict[str, Any]) -> str:
    """The text that a call with these parameters types; empty for none."""
    values = (params.get(name) for name in ("text", "value"))
    return next((value for value in values if isinstance(value, str)), "")


def shows_password(html: Any, typed: str) -> bool:
    """Whether the page has a password's field that the call was aimed at, or that holds what it
    typed."""
    left = [html]
    while left:
        node = left.pop()
        if not isinstance(node, list):
            continue
        left += node
        attributes = node[1] if len(node) > 1 else None
        if isinstance(attributes, dict) and str(node[0]).upper() == "INPUT":
            value = attributes.get(_VALUE)
            aimed = _TARGET in attributes or isinstance(value, str) and typed in value
            if aimed and is_password(attributes):
                return True
    return False


def logs_password(message: str) -> bool:
    """Whether a line of the trace's log says that a call's element is a password's field."""
    return bool(_RESOLVED.search(message[:2000]))
