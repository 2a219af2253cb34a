"""What cannot be taken over from another tool, or given to it: nothing is dropped silently."""

from __future__ import annotations

from pydantic import JsonValue
from pydantic_core import to_json

from agentserve.replay.redaction.secrets import CUT

MAX_LOST = 200
MAX_ORIGIN_BYTES = 256 * 1024
"""Of what is kept of one step as it was; a line of a bundle has a MiB."""
MAX_DATA_BYTES = 256 * 1024
"""The same of a recording as a whole, which is kept in its meta.json."""
_MAX_SENTENCE = 400
_SHOWN = 8


def shortened(text: str, most: int) -> str:
    """A text of ``most`` characters at most. Its end says where it was cut: there a secret's
    beginning is looked for, which would not be known for one otherwise."""
    return text if len(text) <= most else text[: most - 1] + CUT


class Account:
    """Losses in sentences: a thousand steps with one flaw make one sentence."""

    def __init__(self) -> None:
        self._steps: dict[str, list[int]] = {}
        self._more = 0

    def lose(self, sentence: str, step: int | None = None) -> None:
        """``sentence`` begins in lower case and has no full stop; ``step`` is the number of the
        bundle's step, from 0."""
        sentence = shortened(sentence, _MAX_SENTENCE)
        if sentence not in self._steps and len(self._steps) >= MAX_LOST:
            self._more += 1
            return
        steps = self._steps.setdefault(sentence, [])
        if step is not None and step not in steps[-1:]:
            steps.append(step)

    def cut(self, text: str, limit: int, what: str, step: int | None = None) -> str:
        """A text that fits; that it was longer is a loss."""
        if len(text) > limit:
            self.lose(f"{what} has {len(text)} characters, {limit} are kept", step)
        return shortened(text, limit)

    def origin(self, value: JsonValue, step: int) -> JsonValue:
        """What is kept of a step as it was: all of it, or None when it is too large."""
        size = len(to_json(value))
        if size <= MAX_ORIGIN_BYTES:
            return value
        self.lose(f"the source's own step, of {size} bytes, is too large to be kept", step)
        return None

    def data(self, value: JsonValue) -> JsonValue:
        """The same of a recording as a whole, in the form in which it is written."""
        size = len(to_json({"imported": {"data": value}}, indent=2))
        if size <= MAX_DATA_BYTES:
            return value
        self.lose(f"what the source says of the whole, in {size} bytes, is too large to be kept")
        return None

    def sentences(self) -> tuple[str, ...]:
        """In the order in which they came up, each with its steps."""
        more = (f"and {self._more} more",) if self._more else ()
        return (*(_with_steps(text, steps) for text, steps in self._steps.items()), *more)


def _with_steps(sentence: str, steps: list[int]) -> str:
    if not steps:
        return sentence
    shown = ", ".join(str(step) for step in steps[:_SHOWN])
    more = f" and {len(steps) - _SHOWN} more" if len(steps) > _SHOWN else ""
    return f"step{'s' if len(steps) > 1 else ''} {shown}{more}: {sentence}"
