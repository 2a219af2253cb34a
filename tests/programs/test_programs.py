"""The bundled programs' files. What they do is tested in tests/lang."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parents[2] / "programs"
NAMES = sorted(path.stem for path in PROGRAMS.glob("*.py"))


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def test_the_three_programs_are_there() -> None:
    assert NAMES == ["form_filler", "navigator", "verifier"]


@pytest.mark.parametrize("name", NAMES)
def test_a_program_is_short_and_imports_only_what_it_may(name: str) -> None:
    path = PROGRAMS / f"{name}.py"
    assert len(path.read_text().splitlines()) <= 100
    allowed = ("agentserve.lang", "agentserve.core", "sglang")
    assert all(module.startswith(allowed) for module in imports(path)), imports(path)
