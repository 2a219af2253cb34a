"""Selectors of Chrome's Recorder as ours.

A selector is a text or a list of texts, the outer elements first; a prefix names its engine:
``aria/``, ``xpath/``, ``text/``, ``pierce/``, none for CSS.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import ValidationError

from agentserve.core.elements import Selector
from agentserve.replay.importers.fields import Fields
from agentserve.replay.importers.sources import words

MAX_ALTERNATIVES = 32
MAX_CHAIN = 16
_ROLE = re.compile(r"\[role=(?:\"([^\"]*)\"|'([^']*)')\]\s*$")
_ARIA_ATTRIBUTE = re.compile(r"\[\s*(?:name|role)\s*=\s*([\"'])")


def chains_of(step: Fields) -> tuple[tuple[tuple[Selector, ...], ...], list[str]]:
    """The alternatives of a step below its frame, and what is to be told of those left out.

    Raises RecordingError for what no Recorder writes.
    """
    frame = _frame(step)
    chains, notes = [], []
    for alternative in step.list("selectors"):
        parts = [alternative] if isinstance(alternative, str) else alternative
        if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
            raise step.wrong("selectors", "a list of texts or of lists of texts")
        chain = _chain(parts)
        if chain is None or len(frame) + len(chain) > MAX_CHAIN:
            notes.append(f"the selector {words(alternative)} has no equal")
        else:
            chains.append((*frame, *chain))
    if len(chains) > MAX_ALTERNATIVES:
        notes.append(f"only the first {MAX_ALTERNATIVES} of its selectors are tried")
    return tuple(chains[:MAX_ALTERNATIVES]), notes


def _frame(step: Fields) -> tuple[Selector, ...]:
    """Chrome numbers the frames of a frame. They are taken in the order of the page."""
    indices: list[Any] = step.list("frame", [])
    if len(indices) >= MAX_CHAIN or not all(
        type(index) is int and 0 <= index < 10_000 for index in indices
    ):
        raise step.wrong("frame", "a list of the numbers of frames")
    return tuple(
        Selector(engine="xpath", value=f"(//iframe | //frame)[{index + 1}]") for index in indices
    )


def _chain(parts: list[str]) -> tuple[Selector, ...] | None:
    try:
        chain = tuple(_selector(part) for part in parts)
    except ValidationError:
        return None
    return chain or None


def _selector(text: str) -> Selector:
    engine, slash, rest = text.partition("/")
    if slash and engine == "aria":
        role = _ROLE.search(rest)
        name = rest[: role.start()].strip() if role else rest
        if _ARIA_ATTRIBUTE.match(name):  # [name="…"] instead of the name itself
            name = name[name.index("=") + 1 :].strip().rstrip("]").strip()[1:-1]
        return Selector(
            engine="aria",
            value=name,
            role=(role.group(1) or role.group(2)) if role else None,
        )
    if slash and engine == "xpath":
        return Selector(engine="xpath", value=rest)
    if slash and engine == "text":
        return Selector(engine="text", value=rest, exact=False)
    if slash and engine == "pierce":
        return Selector(engine="css", value=rest)
    return Selector(engine="css", value=text)
