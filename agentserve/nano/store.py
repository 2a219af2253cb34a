"""Where the nano model lies: built on first use into the user's cache folder, once."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from agentserve.core.config import cache_folder
from agentserve.core.errors import EngineMismatch

_SOURCES = ("recipe.py", "tokenizer.py", "build.py")
_WRITERS = ("tokenizers", "transformers", "safetensors")


def nano_path() -> Path:
    """The checkpoint's folder; the first call builds it in a process of its own (about 10 s).

    Processes that call at the same time build it once. Raises EngineMismatch when the packages of
    the engine extra are missing or the build fails.
    """
    folder = cache_folder() / f"nano-{_recipe_hash()}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "nano.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            _build(folder)
    return folder


def _recipe_hash() -> str:
    """12 hex digits that stand for everything that decides the checkpoint's bytes."""
    digest = hashlib.sha256()
    try:
        for package in _WRITERS:
            digest.update(f"{package}=={version(package)}\n".encode())
    except PackageNotFoundError as error:
        raise EngineMismatch(
            f"the nano model needs the package {error.name}, which is not installed",
            hint="pip install agentserve[engine]",
        ) from error
    for source in _SOURCES:
        digest.update((Path(__file__).parent / source).read_bytes())
    return digest.hexdigest()[:12]


def _build(folder: Path) -> None:
    """A finished folder appears at once: the build happens beside it. The caller holds the lock."""
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    # a process of its own: the caller (a CLI, a router) must not load torch
    command = [sys.executable, "-m", "agentserve.nano.build", str(partial)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise EngineMismatch(
            f"the nano model could not be built: {(done.stderr.strip() or 'killed')[-500:]}",
            hint=f"for the whole output run: {' '.join(command)}",
        )
    partial.rename(folder)
