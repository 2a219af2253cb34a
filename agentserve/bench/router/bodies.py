"""What of a request reached the worker. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import Field

from agentserve.core.model import Wire


class Kept(Wire):
    """The difference between what a client sent and what the worker got."""

    identical: bool
    """Whether the body's bytes are the same."""
    lost_fields: list[str] = Field(default_factory=list)
    """Of the body, gone or with another value."""
    added_fields: list[str] = Field(default_factory=list)
    lost_headers: list[str] = Field(default_factory=list)
    """Gone or with another value."""


def compare(
    body: bytes, headers: Mapping[str, str], got: bytes, got_headers: Mapping[str, str]
) -> Kept:
    """``headers`` are those that must arrive; names in lower case."""
    sent, received = json.loads(body), json.loads(got)
    return Kept(
        identical=body == got,
        lost_fields=[name for name in sent if name not in received or received[name] != sent[name]],
        added_fields=[name for name in received if name not in sent],
        lost_headers=[name for name, value in headers.items() if got_headers.get(name) != value],
    )
