"""Compiles the CUDA sources to objects, without a GPU, and says what each kernel takes of one.

    python -m agentserve.kernels.build --arch 90a

prints a table of registers and spilled bytes. An object is compiled once: it is kept in the user's
cache folder, under a name made of all that went into it. The flags are FlashInfer's, so this is the
code that its JIT builds on a GPU box; linking and loading are left to it (``cuda.support``).
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentserve.kernels.cuda.support import jit_spec

ARCHITECTURES = ("80", "90a", "100a")
"""What the kernels are made for, in nvcc's names: A100; H100 and H200; B200."""


class CompileError(RuntimeError):
    """nvcc refused a source; the message is what it printed."""


@dataclass(frozen=True)
class Kernel:
    """What ptxas says of one kernel."""

    name: str
    registers: int
    """Of a thread."""
    spilled: int
    """Bytes that a thread stores and loads for want of registers."""
    shared: int
    """Bytes of a block, as far as they are known at compile time."""


def missing() -> str | None:
    """Why nothing can be compiled here, or None."""
    try:
        import flashinfer.jit  # noqa: F401
    except ModuleNotFoundError as error:
        return f"FlashInfer is not installed: {error}"
    if not _cuda_tool("nvcc").exists():
        return f"there is no {_cuda_tool('nvcc')}"
    return None


def compile_objects(arch: str, make_spec: Callable[[], Any] = jit_spec) -> list[Kernel]:
    """Compile every source of a FlashInfer build description for one architecture.

    Raises:
        CompileError: a source does not compile.
    """
    with _target(arch):
        commands = make_spec().get_compile_commands()
    kernels: list[Kernel] = []
    for command in commands:
        if command["file"].endswith(".cu"):
            kernels += parse_log(_compile(shlex.split(command["command"]), Path(command["file"])))
    return kernels


def parse_log(log: str) -> list[Kernel]:
    """The kernels that ptxas tells of with ``-v``, in its order.

    ptxas: "Compiling entry function 'NAME' for", then "B bytes spill stores, B bytes spill loads",
    then "Used N registers, ..., B bytes smem" (which may be left out).
    """
    kernels = []
    for part in log.split("Compiling entry function ")[1:]:
        stores, loads = _numbers(r"(\d+) bytes spill stores, (\d+) bytes spill loads", part)
        (registers,) = _numbers(r"Used (\d+) registers", part)
        shared = re.search(r"(\d+) bytes smem", part)
        name = part.split("'")[1]
        kernels.append(Kernel(name, registers, stores + loads, int(shared[1]) if shared else 0))
    return kernels


def readable(name: str) -> str:
    """A kernel's name as the source has it, with its template arguments; without c++filt as it is.

    "void agentserve::(anonymous namespace)::columns<float, 64>(int)" is "columns<float, 64>".
    """
    tool = shutil.which("c++filt")
    if tool is None:
        return name
    full = subprocess.run([tool, name], capture_output=True, text=True, check=True).stdout.strip()
    short = re.sub(r"^void |\(anonymous namespace\)::|\b\w+::|\([\w:]+\)(?=-?\w)", "", full)
    return short.split("(")[0]


def _compile(command: Sequence[str], source: Path) -> str:
    """Compile one source, or find it compiled; what ptxas said."""
    digest = hashlib.sha256(_nvcc_version())
    # Headers of our own are few; whatever one of them changes is compiled again.
    for file in (source, *sorted(source.parent.glob("*.cuh"))):
        digest.update(file.read_bytes())
    place = command.index("-o")
    flags = [*command[:place], *command[place + 2 :]]
    digest.update("\0".join(flags).encode())
    stem = _cache() / f"{source.stem}-{digest.hexdigest()[:24]}"
    log = stem.with_suffix(".log")
    if not log.exists():
        with tempfile.TemporaryDirectory(dir=_cache()) as folder:
            made = Path(folder) / "made.o"
            result = subprocess.run(
                [*flags, "-Xptxas=-v", "-o", str(made)], capture_output=True, text=True
            )
            if result.returncode != 0:
                raise CompileError(result.stdout + result.stderr)
            made.replace(stem.with_suffix(".o"))
            made.write_text(result.stderr)
            made.replace(log)
    return log.read_text()


def _nvcc_version() -> bytes:
    return subprocess.run([_cuda_tool("nvcc"), "--version"], capture_output=True, check=True).stdout


def _cuda_tool(name: str) -> Path:
    from flashinfer.jit.cpp_ext import get_cuda_path

    return Path(get_cuda_path()) / "bin" / name


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(home) / "agentserve" / "kernels"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def _target(arch: str) -> Iterator[None]:
    """Make FlashInfer's flags those of an architecture; it has no other way to be told."""
    name = "FLASHINFER_CUDA_ARCH_LIST"
    before = os.environ.get(name)
    os.environ[name] = re.sub(r"^(\d+)(\d[a-z]?)$", r"\1.\2", arch)
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before


def _numbers(pattern: str, text: str) -> list[int]:
    found = re.search(pattern, text)
    if found is None:
        raise ValueError(f"ptxas said nothing like {pattern!r}: {text}")
    return [int(number) for number in found.groups()]


def main() -> None:
    parser = argparse.ArgumentParser(description="Compile the CUDA kernels; print what they take.")
    parser.add_argument("--arch", action="append", choices=ARCHITECTURES, help="default: all")
    for arch in parser.parse_args().arch or ARCHITECTURES:
        kernels = compile_objects(arch)
        print(f"\nsm_{arch:6} registers  spilled B  shared B  kernel")
        for kernel in kernels:
            numbers = f"{kernel.registers:19} {kernel.spilled:10} {kernel.shared:9}"
            print(f"{numbers}  {readable(kernel.name)}")


if __name__ == "__main__":
    main()
