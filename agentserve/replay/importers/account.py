"""An account of what cannot be taken over, in sentences."""

from __future__ import annotations

from pydantic import JsonValue
from pydantic_core import to_json

from agentserve.replay.importers.source import MAX_ORIGIN_BYTES

MAX_DATA_BYTES = 256 * 1024
"""Of what is kept of a recording as a whole, in its meta.json."""
MAX_LOST = 400
_MAX_SENTENCE = 400


class Account:
    """What could not be taken over, in sentences."""

    def __init__(self) -> None:
        self._sentences: dict[str, None] = {}
        self._more = 0

    def lose(self, sentence: str, step: int | None = None) -> None:
        """``step`` is the number of the bundle's step, from 0."""
        where = "" if step is None else f"step {step}: "
        if len(self._sentences) < MAX_LOST:
            self._sentences[(where + sentence)[:_MAX_SENTENCE]] = None
        else:
            self._more += 1

    def cut(self, text: str, limit: int, what: str, step: int) -> str:
        """A text that fits; that it was longer is a loss."""
        if len(text) > limit:
            self.lose(f"{what} has {len(text)} characters, {limit} are kept", step)
        return text[:limit]

    def origin(self, value: JsonValue, step: int) -> JsonValue:
        """What is kept of a step as it was: all of it, or None when it is too large."""
        size = len(to_json(value))
        if size <= MAX_ORIGIN_BYTES:
            return value
        self.lose(f"the source's own line, of {size} bytes, is too large to be kept", step)
        return None

    def data(self, value: JsonValue) -> JsonValue:
        """The same of a recording as a whole, in the form in which it is written."""
        size = len(to_json({"imported": {"data": value}}, indent=2))
        if size <= MAX_DATA_BYTES:
            return value
        self.lose(f"what the source says of the whole, in {size} bytes, is too large to be kept")
        return None

    def sentences(self) -> tuple[str, ...]:
        more = (f"and {self._more} more",) if self._more else ()
        return (*self._sentences, *more)
