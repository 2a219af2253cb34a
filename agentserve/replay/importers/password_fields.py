"""Which elements are passwords' fields, where a source keeps their attributes. Pure."""

from __future__ import annotations

import re
from typing import Any

_AUTOCOMPLETE = re.compile(r"\b(?:current|new)-password\b", re.IGNORECASE)


def is_password(attributes: dict[str, Any]) -> bool:
    """Of an element's attributes: of a password's field, also while a page shows what is in it."""
    kind, said = attributes.get("type"), attributes.get("autocomplete")
    return (isinstance(kind, str) and kind.strip().lower() == "password") or (
        isinstance(said, str) and bool(_AUTOCOMPLETE.search(said))
    )
