"""One HTML file that needs nothing but itself: no network, no server, no other file.

Everything that came from a model, a page or a recording is hostile. It enters the page as JSON in
a data block, is shown by textContent only, and a content security policy allows no script and no
style but the page's own, by hash, and pictures from data URIs alone.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from agentserve.core.errors import RecordingError
from agentserve.replay.bundle.files import write_whole


def write_page(
    path: Path, name: str, title: str, data: Any, *, scripts: Sequence[str] = ()
) -> None:
    """Write the page whose markup, style and script are ``files/<name>.*``; its script comes behind
    what all pages have in common and behind ``scripts``. Blocking. Raises RecordingError when it
    cannot be written."""
    page = _page(name, title, data, scripts).encode("utf-8", errors="replace")
    try:
        write_whole(path, page)
    except OSError as error:
        raise RecordingError(f"cannot write the page {path}: {error.strerror or error}") from error


class Pictures:
    """Data URIs of PNGs by their name, each once, while they fit into ``room`` bytes."""

    def __init__(self, room: int) -> None:
        self.uris: dict[str, str] = {}
        self._asked: set[str] = set()
        self._room = room

    def add(self, name: str, read: Callable[[], bytes | None]) -> None:
        """``read`` is called the first time that the name is added; None: there is none."""
        if name in self._asked:
            return
        self._asked.add(name)
        png = read()
        if png is not None and len(png) <= self._room:
            self._room -= len(png)
            self.uris[name] = "data:image/png;base64," + base64.b64encode(png).decode()


def _page(name: str, title: str, data: Any, scripts: Sequence[str]) -> str:
    style = _joined(["common", name], "css")
    script = _joined(["common", *scripts, name], "js")
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_csp_hash(style)}'; "
        f"script-src '{_csp_hash(script)}'; base-uri 'none'; form-action 'none'"
    )
    parts = {
        "policy": policy,
        "title": html.escape(title),
        "style": style,
        "script": script,
        "data": _script_json(data),
    }
    # one pass: what is put in is never searched for placeholders
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _asset(f"{name}.html"))


def _script_json(data: Any) -> str:
    """JSON in which nothing can end the script element that holds it."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _csp_hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _joined(names: Sequence[str], kind: str) -> str:
    return "".join(_asset(f"{name}.{kind}") for name in names)


def _asset(name: str) -> str:
    return (resources.files("agentserve.replay") / "pages" / "files" / name).read_text(
        encoding="utf-8"
    )
