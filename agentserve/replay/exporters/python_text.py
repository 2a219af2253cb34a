"""Values as Python source. Texts of recordings get into a script as literals alone."""

from __future__ import annotations

from collections.abc import Mapping


def literal(value: object) -> str:
    """A text, number, list or mapping of such as one line of Python.

    ``repr`` leaves no character in a text that could end it, its line, or turn its direction.
    """
    if isinstance(value, str):
        text = repr(value)
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


def call(name: str, /, *values: object, **named: object) -> str:
    """A call with literals; a named value of None is left out."""
    given = [literal(value) for value in values]
    given += [f"{key}={literal(value)}" for key, value in named.items() if value is not None]
    return f"{name}({', '.join(given)})"
