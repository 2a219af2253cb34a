"""What all Triton operations share: whether they can run here, and small helpers."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.runtime.interpreter import InterpretedFunction

from agentserve.kernels.dispatch import BackendUnavailable

INTERPRETED = isinstance(tl.sum, InterpretedFunction)
"""Whether Triton was imported with ``TRITON_INTERPRET=1``: it then runs on the CPU, and only there.
Setting it later does not help, since Triton's own functions exist already."""

WIDEN = tl.constexpr(INTERPRETED)

_TYPES = {torch.float32: tl.float32, torch.float16: tl.float16, torch.bfloat16: tl.bfloat16}


def require_device(tensor: Tensor) -> None:
    """Refuse a tensor on whose device Triton cannot work in this process.

    Raises:
        BackendUnavailable: it cannot.
    """
    if tensor.device.type != ("cpu" if INTERPRETED else "cuda"):
        need = "is in interpreter mode" if INTERPRETED else "needs a GPU, or TRITON_INTERPRET=1"
        raise BackendUnavailable(f"Triton {need}; the tensors are on {tensor.device}")


def element_type(tensor: Tensor) -> tl.dtype:
    """The Triton type of a float32, float16 or bfloat16 tensor's elements."""
    return _TYPES[tensor.dtype]


def padded(dim: int) -> int:
    """``dim`` as a tile's side: a power of 2, and no less than a matrix product takes."""
    return max(16, triton.next_power_of_2(dim))


@triton.jit
def product(a, b):
    """The matrix product in float32. The interpreter (3.8) multiplies bfloat16 as integers, so it
    gets float32."""
    if WIDEN:
        a, b = a.to(tl.float32), b.to(tl.float32)
    return tl.dot(a, b, input_precision="ieee")
