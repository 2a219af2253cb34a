"""How a secret stands in a recording: ``{{secret:NAME}}``."""

from __future__ import annotations

import re

PLACEHOLDER = re.compile(r"\{\{secret:([A-Za-z_][A-Za-z0-9_]{0,63})\}\}")
"""Its group is the name."""


def placeholder(name: str) -> str:
    return "{{secret:" + name + "}}"


def placeholders_in(text: str) -> list[str]:
    """The names of the secrets that stand in a text, each once, in their order."""
    return list(dict.fromkeys(PLACEHOLDER.findall(text)))
