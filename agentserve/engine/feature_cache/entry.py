"""One entry's file: a safetensors file with two tensors.

``embeddings``  [tokens, hidden], F32, BF16 or F16
``sha256``      [32], U8: of the entry's identity, and of dtype, shape and bytes of the embeddings

The identity is not in the file. A file that was moved, renamed or made by another model fails the
check like one with a flipped bit.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

DTYPES = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}
"""safetensors' names of the dtypes that embeddings may have → torch's."""


def check_embeddings(tensor: Tensor) -> None:
    """Raises ValueError for what is not [tokens, hidden], at least one of each, in fp32/bf16/fp16.

    ``tensor`` may be on any device.
    """
    if tensor.ndim != 2 or tensor.numel() == 0 or _name(tensor) is None:
        raise ValueError(
            f"embeddings are [tokens, hidden] in {', '.join(DTYPES.values())}, "
            f"not {list(tensor.shape)} in {tensor.dtype}"
        )


def encode(tensor: Tensor, identity: str) -> bytes:
    """The file of an entry. ``tensor`` is contiguous, on the CPU and passes check_embeddings."""
    import torch
    from safetensors.torch import save

    name = _name(tensor)
    assert name is not None, "check_embeddings was called"
    content = memoryview(tensor.view(torch.uint8).numpy())
    digest = _digest(identity, name, list(tensor.shape), content)
    checksum = torch.frombuffer(bytearray(digest), dtype=torch.uint8)
    return save({"embeddings": tensor, "sha256": checksum})


def decode(data: bytes, identity: str) -> Tensor | None:
    """The embeddings of a file, on the CPU; None when it is not exactly what encode wrote."""
    import torch
    from safetensors import SafetensorError, deserialize

    try:
        tensors = dict(deserialize(data))
    except SafetensorError:
        return None
    if tensors.keys() != {"embeddings", "sha256"}:
        return None
    embeddings, checksum = tensors["embeddings"], tensors["sha256"]
    name, shape, content = embeddings["dtype"], embeddings["shape"], embeddings["data"]
    if name not in DTYPES or len(shape) != 2 or len(content) == 0:
        return None
    if _digest(identity, name, shape, content) != bytes(checksum["data"]):
        return None
    return torch.frombuffer(content, dtype=getattr(torch, DTYPES[name])).view(shape)


def _name(tensor: Tensor) -> str | None:
    """safetensors' name of the tensor's dtype; None when embeddings may not have it."""
    return next(
        (name for name, torch in DTYPES.items() if str(tensor.dtype) == f"torch.{torch}"), None
    )


def _digest(identity: str, dtype: str, shape: list[int], content: bytes | memoryview) -> bytes:
    digest = hashlib.sha256(f"{identity} {dtype} {shape}\n".encode())
    digest.update(content)
    return digest.digest()
