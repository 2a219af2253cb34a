"""What was evaluated, told by files and packages: weights, versions, the checkout's commit."""

from __future__ import annotations

import hashlib
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import agentserve

CHECKOUT = Path(agentserve.__file__).parents[1]
_PACKAGES = ("miniwob", "playwright", "torch", "transformers")
_GIT_TIMEOUT_S = 10.0


def weights_sha256(folder: Path) -> str | None:
    """SHA-256 of a checkpoint's weights; None when there are none.

    One safetensors file gives its own hash, as ``sha256sum`` does; several give the hash of their
    bytes in the order of their names.
    """
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        return None
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def package_versions() -> dict[str, str]:
    """Of Python, of agentserve and of the packages that may change an outcome, where installed."""
    found = {"python": platform.python_version(), "agentserve": agentserve.__version__}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def commit(folder: Path = CHECKOUT) -> str | None:
    """The commit that is checked out in ``folder``, with ``+`` behind it when tracked files differ
    from it; None where there is no git repository."""
    head = _git(folder, "rev-parse", "--verify", "HEAD")
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    if head is None or changed is None:
        return None
    return head + ("+" if changed else "")


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
