"""Compiles every Triton kernel as the cases call it, for a GPU that is not there; nothing runs.

Prints what ptxas says of them. A program of its own (see test_triton): it puts a driver without a
device in the place of Triton's.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

from agentserve.kernels import ops
from agentserve.kernels.specs import ALL
from agentserve.kernels.triton import support


class NoDevice:
    """The part of a Triton driver that compiling needs."""

    def __init__(self, capability: int) -> None:
        self.target = GPUTarget("cuda", capability, 32)

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


def main(capability: int) -> None:
    triton.runtime.driver.set_active(NoDevice(capability))
    support.require_device = lambda tensor: None
    run = JITFunction.run
    kernels: dict[str, Any] = {}

    def compile_only(self: JITFunction, *args: Any, **kwargs: Any) -> None:
        compiled = run(self, *args, **kwargs | {"warmup": True})
        kernels[compiled.hash] = compiled

    JITFunction.run = compile_only
    for spec in ALL:
        for case in spec.cases:
            getattr(ops, spec.name)(**spec.example(case), backend="triton")
    for compiled in kernels.values():
        print(assembled(compiled))


def assembled(compiled: Any) -> str:
    """What ptxas says of a kernel."""
    command = [triton.knobs.nvidia.ptxas.path, "-v", f"-arch=sm_{compiled.metadata.target.arch}a"]
    return subprocess.run(
        [*command, "-o", "/dev/null", "-"],
        input=compiled.asm["ptx"],
        capture_output=True,
        text=True,
        check=True,
    ).stderr


if __name__ == "__main__":
    main(int(sys.argv[1]))
