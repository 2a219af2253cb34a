"""Values as Python source. Texts of recordings get into a script as literals alone; secrets, which
no recording holds, are looked up by their names."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from agentserve.core.secret_names import PLACEHOLDER

SECRETS = "SECRETS"
"""The script's mapping of values by names."""
QUOTE = "quote"
"""The script's function that percent-encodes a text."""


class Address(str):
    """An address: secrets in it are percent-encoded."""


def literal(value: object) -> str:
    """A text, number, list or mapping of such as one line of Python.

    ``repr`` leaves no character in a text that could end it, its line, or turn its direction.
    """
    if isinstance(value, str):
        text = repr(str(value))
        return f'"{text[1:-1]}"' if text[0] == "'" and '"' not in value else text
    if isinstance(value, bool | None):
        return repr(value)
    if isinstance(value, int | float):
        return f"{value:.10g}"
    if isinstance(value, Mapping):
        inside = ", ".join(f"{literal(name)}: {literal(one)}" for name, one in value.items())
        return f"{{{inside}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(literal(one) for one in value)}]"
    raise TypeError(f"no literal of {type(value).__name__}")


def said(value: object) -> str:
    """The same, but a text with placeholders of secrets becomes an expression with their values:
    what the recorded action said."""
    if not isinstance(value, str):
        return literal(value)
    parts, at = [], 0
    for found in PLACEHOLDER.finditer(value):
        looked_up = f"{SECRETS}[{literal(found[1])}]"
        if isinstance(value, Address):
            looked_up = f'{QUOTE}({looked_up}, safe="")'
        parts += [literal(value[at : found.start()])] if found.start() > at else []
        parts.append(looked_up)
        at = found.end()
    parts += [literal(value[at:])] if at < len(value) or not parts else []
    return " + ".join(parts)


def call(name: str, /, *values: object, **named: object) -> str:
    """A call with values as they were ``said``; a named value of None is left out."""
    given = [said(value) for value in values]
    given += [f"{key}={said(value)}" for key, value in named.items() if value is not None]
    return f"{name}({', '.join(given)})"


def secrets_in(lines: Iterable[str]) -> tuple[list[str], bool]:
    """The names that lines look up, sorted, and whether they percent-encode any."""
    nodes = list(ast.walk(ast.parse("\n".join(lines))))
    names = {
        node.slice.value
        for node in nodes
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == SECRETS
        and isinstance(node.slice, ast.Constant)
    }
    quoted = any(isinstance(node, ast.Name) and node.id == QUOTE for node in nodes)
    return sorted(names), quoted
