from __future__ import annotations

from pathlib import Path

import pytest

from agentserve.core.blobs import sha256_of
from agentserve.core.errors import UnknownProgram
from agentserve.lang.registry import load_registry


def test_a_program_is_named_after_its_file(write_program, programs: Path) -> None:
    path = write_program("s += 'hi'", name="greeter")
    path.write_text('"""Says hi."""\n' + path.read_text())
    registry = load_registry([programs])
    (info,) = registry.listing().programs
    assert (info.name, info.doc) == ("greeter", "Says hi.")
    assert info.sha256 == sha256_of(path.read_bytes())
    assert registry.get("greeter").path == path


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("x = = 1", "SyntaxError"),
        ("import no_such_module_at_all", "ModuleNotFoundError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("x = 1", "it has no @sgl.function begin(s, task)"),
        ("def begin(s, task): ...", "it has no @sgl.function begin(s, task)"),
        (
            "import sglang as sgl\n@sgl.function\ndef begin(s, goal): ...",
            "begin takes (s, goal), it must be begin(s, task)",
        ),
        (
            "import sglang as sgl\n@sgl.function\ndef begin(s, task): ...",
            "it has no @sgl.function turn(s, view, instruction, feedback)",
        ),
    ],
)
def test_a_broken_file_is_reported_and_the_others_are_served(
    write_program, programs: Path, source: str, reason: str
) -> None:
    write_program("s += 'hi'", name="good")
    bad = programs / "bad.py"
    bad.write_text(source)
    listing = load_registry([programs]).listing()
    assert [info.name for info in listing.programs] == ["good"]
    assert list(listing.broken) == [str(bad)]
    assert reason in listing.broken[str(bad)]


def test_files_folders_and_missing_paths(write_program, programs: Path, tmp_path: Path) -> None:
    write_program("s += 'a'", name="one")
    write_program("s += 'b'", name="_helper")
    missing = tmp_path / "missing.py"
    registry = load_registry([programs, programs / "one.py", missing])
    assert sorted(registry.programs) == ["one"]
    assert "taken by" in registry.broken[str(programs / "one.py")]
    assert "No such file" in registry.broken[str(missing)]


def test_an_unknown_name_comes_with_the_known_ones(write_program, programs: Path) -> None:
    write_program("s += 'a'", name="one")
    with pytest.raises(UnknownProgram) as caught:
        load_registry([programs]).get("two")
    assert caught.value.details == {"programs": ["one"]}
