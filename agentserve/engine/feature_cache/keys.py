"""Which numbers an entry has, beside its region: of which checkpoint, computed how."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path


def model_key(*facts: str) -> str:
    """64 hex digits of everything but the pixels that the numbers depend on.

    That is at least the checkpoint's revision and the dtype, and where bits matter the device and
    the attention backend too.
    """
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def checkpoint_revision(folder: Path) -> str:
    """Revision (64 hex digits) of a checkpoint's folder, without reading its weights.

    Made of the text of every JSON file (configuration, picture preprocessing) and of name, size and
    modification time of every other file, so that weights trained anew in the same place are
    another revision. Raises OSError when the folder cannot be read.
    """
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        facts = path.stat()  # of the file itself where a hub's cache has a link to it
        if path.suffix == ".json":
            state = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            state = f"{facts.st_size} {facts.st_mtime_ns}"
        digest.update(json.dumps([path.name, state]).encode())
    return digest.hexdigest()
