"""Where a blob lies below the blob folder. The router writes there, program hosts read.

Each tenant has a folder of its own, also for bytes that another one has sent as well. So nothing
that a tenant does can tell it what others have: its own folder alone decides what is known, what
counts to its quota and what has expired, for every router and host that computes the same path. Two
tenants' screens are hardly ever the same bytes: sharing them would save nothing.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path


def sha256_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def tenant_folder(tenant: str) -> str:
    """The name of a tenant's folder: its id may be any text, "" without API keys."""
    return sha256_of(tenant.encode())[:32]


def blob_path(root: Path, tenant: str, sha256: str) -> Path:
    """Path of a blob. ``sha256`` must already be checked to be 64 hex digits (plans.Sha256)."""
    return root / tenant_folder(tenant) / sha256[:2] / sha256


def read_picture(root: Path, tenant: str, sha256: str, handed: Path | None) -> bytes:
    """Of a blob that a program host was asked to show: it lies in the folder ``handed``, under its
    hash, or else below the blob folder. Raises FileNotFoundError."""
    if handed is not None:
        with suppress(FileNotFoundError):
            return (handed / sha256).read_bytes()
    return blob_path(root, tenant, sha256).read_bytes()
