"""The JavaScript that goes into every page before the page's own."""

from __future__ import annotations

from pathlib import Path

from agentserve.nano import oracles

WORDS = "words"
"""The name of the synthetic page among the tasks: it has no goal and no oracle."""

_TOGETHER = ";\n"
"""Scripts that end in no semicolon would be called with what follows them."""
_HERE = Path(__file__).parent


def tile_script() -> str:
    """What a tile of a grid needs."""
    return _TOGETHER.join([solo_script(), _read("frame.js")])


def solo_script() -> str:
    """What a page of its own needs."""
    return _TOGETHER.join([_read("extract.js"), _read("episode.js"), oracles.script()])


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")
