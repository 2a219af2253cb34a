"""What a pass-through request calls its session, so that its requests stay on one worker. Pure.

A body may hold megabytes of pictures, so it is searched and not parsed: a key inside another object
counts as well, which at worst keeps two conversations together.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping

from agentserve.core.errors import InvalidRequest

ROUTING_KEY = "x-smg-routing-key"
"""The header of SGLang's router."""
BODY_KEYS = ("prompt_cache_key", "user")
"""OpenAI's."""
LONGEST = 4096
_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_VALUE = re.compile(rb'\s*:\s*("(?:[^"\\]|\\.)*")')


def session_name(headers: Mapping[str, str], body: Callable[[], bytes]) -> str | None:
    """X-Session-Id, which may be a REST session's id; else a name made from the routing key, or
    from one of BODY_KEYS in the body. None when the request names none. Raises InvalidRequest."""
    if (given := headers.get("x-session-id")) is not None:
        if not _NAME.fullmatch(given):
            raise InvalidRequest(
                "X-Session-Id is not a name", hint="1 to 128 letters, digits and . _ : -"
            )
        return given
    if (key := headers.get(ROUTING_KEY)) is not None:
        return _made("routing-key", key)
    text = body()
    for name in BODY_KEYS:
        if (value := string_at(text, name)) is not None:
            return _made(name, value)
    return None


def _made(kind: str, value: str) -> str:
    """Of any characters and length, and never a REST session's id."""
    return f"{kind}:{hashlib.sha256(value.encode()).hexdigest()[:32]}"


def string_at(body: bytes, key: str) -> str | None:
    """The first string that is the value of a key."""
    quoted = json.dumps(key).encode()
    at = body.find(quoted)
    while at >= 0:
        behind = at + len(quoted)
        # \" would be inside of a string
        if body[at - 1 : at] != b"\\" and (found := _VALUE.match(body, behind, behind + LONGEST)):
            try:
                return json.loads(found[1])
            except ValueError:  # no JSON string after all
                return None
        at = body.find(quoted, behind)
    return None
