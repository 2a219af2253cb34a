"""Where a blob lies below the blob folder. The router writes there, program hosts read."""

from __future__ import annotations

import hashlib
from pathlib import Path


def sha256_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def blob_path(root: Path, sha256: str) -> Path:
    """Path of a blob. ``sha256`` must already be checked to be 64 hex digits (plans.Sha256)."""
    return root / sha256[:2] / sha256
