"""Texts of recordings in Python source stay texts."""

from __future__ import annotations

import ast

import pytest

from agentserve.replay.exporters.python_text import call, literal

HOSTILE = (
    '"""\nimport os\nos.system("x")\n"""',
    "'); import os; ('",
    '"); import os; ("',
    "\\",
    "\\'",
    '\\"',
    "'\"\\\n\r\x00\x1b[2J",
    "\u2028\u2029\x0b\x0c\x85",
    "\u202eevil\u2066",
    "{x!r} {0} %s",
    "é 漢 🙂",
    "",
)


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_a_text_is_one_line_of_source_that_means_it(text: str) -> None:
    source = literal(text)
    assert ast.literal_eval(source) == text
    assert len(source.splitlines()) == 1 and source.isprintable()


def test_other_values_too() -> None:
    value = {"a": [1, 2.5, True, None, "x"], 'b"': {}}
    assert ast.literal_eval(literal(value)) == value


def test_calls_leave_out_what_is_not_said() -> None:
    assert call("page.f", "it's", 3, name="x", no=None) == 'page.f("it\'s", 3, name="x")'


def test_other_types_are_a_mistake_of_ours() -> None:
    with pytest.raises(TypeError):
        literal(object())
