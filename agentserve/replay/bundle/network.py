"""The HAR file of a bundle: what is checked of it before anything replays it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic_core import from_json

from agentserve.core.errors import RecordingError
from agentserve.replay.bundle.json_size import weight_of

MAX_NETWORK_ENTRIES = 50_000
MAX_NETWORK_WEIGHT = 8_000_000
"""As ``json_size`` weighs: of about 18,000 requests as browsers write them."""


def parse_har(data: bytes) -> dict[str, Any]:
    """HAR 1.2, as browsers and Playwright write it, with all bodies inside.

    Raises RecordingError for what is none, and for one whose bodies are in other files: the name of
    such a file is a path that a player would follow.
    """
    if weight_of(data, MAX_NETWORK_WEIGHT) > MAX_NETWORK_WEIGHT:
        raise RecordingError(
            "too many values in it to be held in memory",
            hint="of at most about 18,000 requests: record fewer at a time",
        )
    try:
        har = from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise RecordingError(f"not JSON: {error}") from error
    log = har.get("log") if isinstance(har, dict) else None
    entries = log.get("entries") if isinstance(log, dict) else None
    if not isinstance(entries, list) or not isinstance(log.get("version"), str):
        raise RecordingError("not a HAR file: log.version or log.entries is missing")
    if len(entries) > MAX_NETWORK_ENTRIES:
        raise RecordingError(f"{len(entries)} requests; {MAX_NETWORK_ENTRIES} is most")
    for number, entry in enumerate(entries):
        if (reason := _reason(entry)) is not None:
            raise RecordingError(f"log.entries.{number}: {reason}")
    if any("_file" in each for each in _objects(har)):
        raise RecordingError(
            "it names files outside of it (_file)",
            hint="record it with its bodies embedded: record_har_content='embed'",
        )
    return har


def _reason(entry: Any) -> str | None:
    """What is missing of one request and its response."""
    request = entry.get("request") if isinstance(entry, dict) else None
    response = entry.get("response") if isinstance(entry, dict) else None
    if not isinstance(request, dict) or not isinstance(response, dict):
        return "request or response is missing"
    if not isinstance(request.get("method"), str) or not isinstance(request.get("url"), str):
        return "request.method or request.url is missing"
    if type(response.get("status")) is not int:
        return "response.status is missing"
    if not isinstance(response.get("content", {}), dict):
        return "response.content is no object"
    return None


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """All objects in a JSON value; its parser has bounded their depth."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            yield each
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
