"""Traces that nobody's Playwright wrote."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

from PIL import Image


def jpeg(size: tuple[int, int] = (80, 60)) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, (200, 10, 90)).save(buffer, "JPEG")
    return buffer.getvalue()


BEGIN = {
    "type": "context-options",
    "version": 10,
    "origin": "library",
    "playwrightVersion": "1.65.0",
    "wallTime": 1.7e12,
    "options": {"viewport": {"width": 160, "height": 120}},
}


def call(method: str, number: int = 1, *, cls: str = "Frame", **params: Any) -> list[Any]:
    identity = {"callId": f"call@{number}"}
    before = {"type": "before", "class": cls, "method": method, "params": params}
    return [
        {**before, **identity, "startTime": 10.0 * number},
        {"type": "after", **identity, "endTime": 10.0 * number + 5},
    ]


def write(
    path: Path, *events: Any, name: str = "trace.trace", begin: Any = BEGIN, **members: bytes
) -> Path:
    lines = b"".join(json.dumps(event).encode() + b"\n" for event in (begin, *events))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr(name, lines)
        for member, data in members.items():
            zipped.writestr(member, data)
    return path
