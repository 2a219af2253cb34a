"""Fields of another tool's JSON object: each has the type that is asked for, or is refused."""

from __future__ import annotations

import math
from typing import Any, TypeVar

from pydantic import ValidationError

from agentserve.core.errors import RecordingError
from agentserve.core.model import Wire
from agentserve.core.screens import MAX_SIDE, Size
from agentserve.replay.importers.sources import words

T = TypeVar("T", bound=Wire)


class Fields:
    """A JSON object with what to call it in an error. Every method raises RecordingError."""

    def __init__(self, values: Any, entry: str) -> None:
        if not isinstance(values, dict):
            raise RecordingError(f"{entry}: an object belongs here, not {words(values)}")
        self.values: dict[str, Any] = values
        self.entry = entry

    def text(self, name: str, default: str | None = None) -> str:
        return self._of(name, str, "a text", default)

    def true(self, name: str, default: bool | None = None) -> bool:
        return self._of(name, bool, "true or false", default)

    def list(self, name: str, default: list[Any] | None = None) -> list[Any]:
        return self._of(name, list, "a list", default)

    def inner(self, name: str) -> Fields:
        return Fields(self.values.get(name), f"{self.entry}: {name}")

    def number(self, name: str, default: float | None = None) -> float:
        value = self.values.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(name, "a number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise self.wrong(name, "a finite number")
        return number

    def integer(self, name: str, low: int, high: int, default: int | None = None) -> int:
        number = self.number(name, default)
        if number != int(number) or not low <= number <= high:
            raise self.wrong(name, f"a whole number from {low} to {high}")
        return int(number)

    def size(self) -> Size:
        """Of the fields width and height, in px."""
        return Size(
            width=self.integer("width", 1, MAX_SIDE), height=self.integer("height", 1, MAX_SIDE)
        )

    def build(self, kind: type[T], **values: Any) -> T:
        """A value of ours from what the object says."""
        try:
            return kind(**values)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise RecordingError(f"{self.entry}: {where}: {first['msg'][:200]}") from error

    def wrong(self, name: str, wanted: str) -> RecordingError:
        if name not in self.values:
            return RecordingError(f"{self.entry}: {name} is missing: {wanted} belongs there")
        value = words(self.values[name])
        return RecordingError(f"{self.entry}: {name} must be {wanted}, not {value}")

    def _of(self, name: str, kind: type, wanted: str, default: Any) -> Any:
        value = self.values.get(name, default)
        if not isinstance(value, kind):
            raise self.wrong(name, wanted)
        return value
