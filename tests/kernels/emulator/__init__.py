"""Builds the CUDA sources for the CPU, against a header that plays the GPU (emulator.h)."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import agentserve.kernels

_HERE = Path(__file__).parent
_CSRC = Path(agentserve.kernels.__file__).with_name("csrc")
_LAUNCH = re.compile(r"(\w+(?:<[^;{}()<]*>)?)\s*<<<(.*?)>>>\s*\((.*?)\);", re.DOTALL)


def missing() -> str | None:
    """Why the sources cannot be built here, or None."""
    for package in ("flashinfer", "tvm_ffi", "triton"):
        if importlib.util.find_spec(package) is None:
            return f"no {package}"
    return None if shutil.which("g++") else "no g++"


def build(folder: Path) -> Any:
    """The module that ``cuda.support`` loads, for tensors on the CPU; made in ``folder``."""
    import tvm_ffi

    sources = []
    for source in sorted(_CSRC.iterdir()):
        made = folder / source.name.replace(".cu", ".cpp") if source.suffix == ".cu" else None
        (made or folder / source.name).write_text(_LAUNCH.sub(_called, source.read_text()))
        sources += [str(made)] if made else []
    library = folder / "emulated.so"
    flags = ["-std=c++17", "-O1", "-shared", "-fPIC", "-w", "-include", str(_HERE / "emulator.h")]
    result = subprocess.run(
        ["g++", *flags, *_include_flags(), *sources, "-o", str(library), *_link_flags()],
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return tvm_ffi.load_module(str(library))


def _called(launch: re.Match[str]) -> str:
    """``kernel<<<grid, block, shared, stream>>>(...);`` as a call of the emulator."""
    kernel, configuration, arguments = launch.groups()
    grid, block = _top_level_parts(configuration)[:2]
    return f"emulator::launch({grid}, {block}, [&] {{ {kernel}({arguments}); }});"


def _top_level_parts(text: str) -> list[str]:
    """Split at the commas that are in no brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "(<") - (character in ")>")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _include_flags() -> list[str]:
    import triton
    import tvm_ffi
    from flashinfer.jit import env

    system = [
        Path(tvm_ffi.libinfo.find_include_path()),
        Path(triton.__file__).parent / "backends" / "nvidia" / "include",
        *env.CCCL_INCLUDE_DIRS,
        env.FLASHINFER_INCLUDE_DIR,
    ]
    # Ours before FlashInfer's, which has a header of the same name.
    return [f"-I{_HERE}", *(f"-isystem{folder}" for folder in system)]


def _link_flags() -> list[str]:
    import tvm_ffi

    library = Path(tvm_ffi.libinfo.find_libtvm_ffi())
    return [str(library), f"-Wl,-rpath,{library.parent}"]
