"""What is read from ptxas, and when a source is compiled again."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from agentserve.kernels import build

LOG = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z5firstv' for 'sm_90a'
ptxas info    : Function properties for _Z5firstv
    48 bytes stack frame, 40 bytes spill stores, 56 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 48 bytes cumulative stack size, 1040 bytes smem
ptxas info    : Compile time = 50.112 ms
ptxas info    : Compiling entry function '_Z6secondv' for 'sm_90a'
ptxas info    : Function properties for _Z6secondv
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 29 registers, used 0 barriers
"""


def test_a_log_gives_registers_spills_and_shared_memory() -> None:
    assert build.parse_log(LOG) == [
        build.Kernel("_Z5firstv", registers=64, spilled=96, shared=1040),
        build.Kernel("_Z6secondv", registers=29, spilled=0, shared=0),
    ]


def test_a_log_that_is_cut_off_is_refused() -> None:
    with pytest.raises(ValueError, match="Used"):
        build.parse_log(LOG[: LOG.index("Used 64")])


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for nvcc that counts its calls in a file; the cache is the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(build, "_nvcc_version", lambda: b"13.0")
    (tmp_path / "log").write_text(LOG)
    program = tmp_path / "nvcc"
    program.write_text(
        f"#!/bin/sh\n"
        f"echo call >> {tmp_path}/calls\n"
        f'while [ "$1" != -o ]; do grep -q broken "$1" 2>/dev/null && exit 1; shift; done\n'
        f'echo object > "$2"\n'
        f"cat {tmp_path}/log >&2\n"
    )
    program.chmod(0o755)
    return program


def test_a_source_is_compiled_again_when_something_changes(compiler: Path) -> None:
    folder = compiler.parent
    source, header = folder / "kernel.cu", folder / "common.cuh"
    source.write_text("first")
    header.write_text("first")

    def calls(flag: str = "-O3") -> int:
        command = {"file": str(source), "command": f"{compiler} -c {source} {flag} -o unused.o"}
        spec = SimpleNamespace(get_compile_commands=lambda: [command])
        assert len(build.compile_objects("90a", lambda: spec)) == 2
        return len((folder / "calls").read_text().splitlines())

    assert calls() == 1
    assert calls() == 1
    source.write_text("second")
    assert calls() == 2
    header.write_text("second")
    assert calls() == 3
    assert calls("-O2") == 4
    assert calls() == 4


def test_a_source_that_does_not_compile_is_reported_and_not_kept(compiler: Path) -> None:
    source = compiler.parent / "kernel.cu"
    source.write_text("broken")
    command = {"file": str(source), "command": f"{compiler} -c {source} -o unused.o"}
    spec = SimpleNamespace(get_compile_commands=lambda: [command])
    for _ in range(2):
        with pytest.raises(build.CompileError):
            build.compile_objects("90a", lambda: spec)
    assert len((compiler.parent / "calls").read_text().splitlines()) == 2
