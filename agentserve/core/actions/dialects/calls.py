"""Calls of functions with literal arguments, written as Python. Nothing of them is executed."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass
from typing import Any

from agentserve.core.actions.dialects.checks import MAX_ACTIONS, checked_text, shown
from agentserve.core.errors import BadAction

_LITERALS = str | int | float | bool | None


@dataclass(frozen=True)
class Call:
    """One statement."""

    name: str
    """As written, with its dots."""
    positional: tuple[Any, ...]
    named: dict[str, Any]

    def bind(self, *names: str, ignored: tuple[str, ...] = ()) -> dict[str, Any]:
        """The arguments by their names; what has no value is left out. ``ignored`` may be given
        by name besides. Raises BadAction for others and for one given twice."""
        if len(self.positional) > len(names):
            raise BadAction(f"{self.name} takes {len(names)} values, got {len(self.positional)}")
        values = dict(zip(names, self.positional, strict=False))
        for name, value in self.named.items():
            if name in values or name not in (*names, *ignored):
                raise BadAction(
                    f"{self.name} does not take {name[:40]!r}" + " twice" * (name in values),
                    hint=f"it takes: {', '.join(names) or 'nothing'}",
                )
            values[name] = value
        return {name: value for name, value in values.items() if value is not None}


def read_calls(text: str) -> list[Call]:
    """The calls of a text of Python statements; imports are passed over.

    Arguments are texts, numbers, and lists of them. Raises BadAction for anything else.
    """
    calls = []
    for statement in _parsed(text):
        if isinstance(statement, ast.Import | ast.ImportFrom):
            continue
        if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
            raise BadAction("only calls of functions are read", hint="one call a line")
        calls.append(_call(statement.value))
        if len(calls) > MAX_ACTIONS:
            raise BadAction(f"over {MAX_ACTIONS} calls in one answer", hint="do fewer at a time")
    return calls


def _parsed(text: str) -> list[ast.stmt]:
    checked_text(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a stray backslash in a typed text
            return ast.parse(text).body
    # the parser's own answers to nesting and sizes that it does not take
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadAction(
            "the answer cannot be read as calls of functions",
            hint="an answer cut off by its token limit ends like this",
        ) from error


def _call(node: ast.Call) -> Call:
    named = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise BadAction("arguments must be written out, ** is not read")
        named[keyword.arg] = _literal(keyword.value)
    return Call(_name(node.func), tuple(_literal(value) for value in node.args), named)


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    raise BadAction("a function must be called by its name")


def _literal(node: ast.expr, inside: bool = False) -> Any:
    if isinstance(node, ast.List | ast.Tuple) and not inside and len(node.elts) <= MAX_ACTIONS:
        return [_literal(element, True) for element in node.elts]
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        sign = -1 if isinstance(node.op, ast.USub) else 1
        node = node.operand
        if not isinstance(node, ast.Constant) or not isinstance(node.value, int | float):
            raise BadAction("arguments must be plain numbers and texts")
    if not isinstance(node, ast.Constant) or not isinstance(node.value, _LITERALS):
        raise BadAction(
            "arguments must be plain numbers and texts",
            hint=f"got {shown(node.value) if isinstance(node, ast.Constant) else 'an expression'}",
        )
    return sign * node.value if isinstance(node.value, int | float) else node.value
