"""Secrets in a HAR file: in addresses, headers, forms and bodies, those in base64 too."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from agentserve.replay.bundle.network import parse_har
from agentserve.replay.redaction.secrets import Secrets


def hidden_in_har(data: bytes, secrets: Secrets) -> bytes:
    """The HAR without the secrets' values. Raises RecordingError for what is no HAR file."""
    if not secrets:
        return data
    return json.dumps(_hidden(parse_har(data), secrets), ensure_ascii=False, indent=1).encode()


def _hidden(value: Any, secrets: Secrets) -> Any:
    if isinstance(value, str):
        return secrets.hidden(value)
    if isinstance(value, list):
        return [_hidden(each, secrets) for each in value]
    if isinstance(value, dict):
        hidden = {secrets.hidden(key): _hidden(each, secrets) for key, each in value.items()}
        if value.get("encoding") == "base64" and isinstance(value.get("text"), str):
            hidden["text"] = _hidden_body(value["text"], secrets)
        return hidden
    return value


def _hidden_body(text: str, secrets: Secrets) -> str:
    """A body in base64; what is no base64 is searched as it is."""
    try:
        body = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return secrets.hidden(text)
    # bytes that are no UTF-8 go through unchanged
    before = body.decode("utf-8", "surrogateescape")
    after = secrets.hidden(before)
    if after == before:
        return text
    return base64.b64encode(after.encode("utf-8", "surrogateescape")).decode()
