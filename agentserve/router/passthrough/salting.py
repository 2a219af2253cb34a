"""A tenant's cache salt in the body of a pass-through request, without parsing it. Pure.

The salt is put in behind all other keys: of a key that is there twice, JSON readers take the last
value (Python's do), so that a client's own salt cannot stand for another tenant's.
"""

from __future__ import annotations

import hashlib

from agentserve.core.errors import InvalidRequest
from agentserve.router.forwarding import Pieces
from agentserve.router.passthrough.naming import string_at

_BLANKS = b" \t\r\n"


def salted(body: bytes, salt: str) -> Pieces:
    """``body`` with ``cache_salt`` as its last key.

    A salt that the client gave goes into ours: it parts the tenant's own prompts further. Raises
    InvalidRequest for what is no JSON object in UTF-8: a worker that takes it for another encoding
    would read another key.
    """
    start, end = len(body) - len(body.lstrip(_BLANKS)), len(body.rstrip(_BLANKS)) - 1
    if body[start : start + 1] != b"{" or body[end : end + 1] != b"}" or b"\0" in body[:4]:
        raise InvalidRequest(
            "the body is not a JSON object in UTF-8", hint="send it as application/json"
        )
    if (own := string_at(body, "cache_salt")) is not None:
        salt = hashlib.sha256(f"{salt} {own}".encode(errors="surrogatepass")).hexdigest()[:32]
    last = end - 1  # what is before the closing brace; no slice, the body may hold megabytes
    while body[last] in _BLANKS:
        last -= 1
    comma = ", " if last > start else ""
    return memoryview(body)[:end], f'{comma}"cache_salt": "{salt}"'.encode(), body[end:]
