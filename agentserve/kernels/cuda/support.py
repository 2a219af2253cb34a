"""Builds and loads the CUDA module, and says where it cannot be had."""

from __future__ import annotations

import shutil
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from agentserve.kernels.dispatch import BackendUnavailable

ALIGNMENT = 16
"""Bytes of the vectors that kernels read and write."""
_CSRC = Path(__file__).resolve().parents[1] / "csrc"
_OLDEST = (8, 0)


def jit_spec() -> Any:
    """FlashInfer's build description of the module; builds nothing."""
    from flashinfer.jit import gen_jit_spec

    # Not the fast mathematics: they flush small scores to zero, and select_keep must tell them.
    return gen_jit_spec("agentserve_kernels", sorted(_CSRC.glob("*.cu")), use_fast_math=False)


def require(tensor: Tensor) -> Any:
    """The module, for tensors on this one's device; built at the first call (about a minute).

    Raises:
        BackendUnavailable: it cannot be had or cannot run there.
    """
    return _module(tensor.device)


@lru_cache(maxsize=16)
def _module(device: torch.device) -> Any:
    if device.type != "cuda":
        raise BackendUnavailable(f"CUDA kernels need a GPU; the tensors are on {device}")
    capability = torch.cuda.get_device_capability(device)
    if capability < _OLDEST:
        raise BackendUnavailable(f"CUDA kernels need compute capability 8.0, this has {capability}")
    try:
        from flashinfer.jit.cpp_ext import get_cuda_path
    except ModuleNotFoundError as error:
        raise BackendUnavailable(f"the CUDA kernels are built by FlashInfer: {error}") from error
    spec = jit_spec()
    if not spec.is_compiled and shutil.which("nvcc", path=f"{get_cuda_path()}/bin") is None:
        raise BackendUnavailable("the CUDA kernels are not built yet, and there is no nvcc")
    return spec.build_and_load()
