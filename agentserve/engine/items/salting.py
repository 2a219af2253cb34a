"""Pictures of a request with a cache salt: known under other names than anybody else's.

SGLang's ``cache_salt`` parts prefixes in the radix tree only. Its embedding cache knows a picture
by its hash, ours by its content: with the salt in these, nobody finds what another has computed,
and nobody puts a picture under another's hash.
"""

from __future__ import annotations

import hashlib
from typing import Any

SALT_KEY = "agentserve-salt"
"""In an item's ``model_specific_data``, on its way to the scheduler."""


def salt_of(request: Any) -> str:
    """Of SGLang's request; empty when it has none."""
    salt = getattr(request, "cache_salt", None)
    return salt if isinstance(salt, str) else ""


def salted_hash(value: int, salt: str) -> int:
    """64 bits for a hash of as many."""
    if not salt:
        return value
    return int.from_bytes(hashlib.sha256(f"{salt} {value:x}".encode()).digest()[:8], "big")


def salted_content(content: str, salt: str) -> str:
    """SHA-256 for a SHA-256, in hex digits."""
    return hashlib.sha256(f"{salt} {content}".encode()).hexdigest() if salt else content


def mark(output: Any, salt: str) -> None:
    """Let the scheduler salt the ordinary images of what ``process_mm_data_async`` returned: some
    have their hash from there only."""
    if salt and output is not None:
        for item in output.mm_items:
            item.model_specific_data[SALT_KEY] = salt


def salt_marked(inputs: Any) -> None:
    """In the scheduler, of a request's MultimodalInputs: the hashes are there, nothing is known."""
    for item in inputs.mm_items:
        salt = item.model_specific_data.pop(SALT_KEY, None)
        if salt is None:
            continue
        item.set_hash(salted_hash(item.hash, salt))
        if inputs.padded_input_ids is not None:
            for start, last in item.offsets:
                inputs.padded_input_ids[start : last + 1] = item.padding_sequence(last + 1 - start)
