"""Changes the free texts of a model, and no others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, JsonValue

from agentserve.core.sessions import TokenMap

W = TypeVar("W", bound=BaseModel)

_CONTAINERS = (list, tuple, dict)
Change = Callable[[str, str], str]
"""Of a text and the name of its field."""
ChangeNumber = Callable[[str], str]
"""Of a number as JSON writes it, where another tool's data may hold any."""


@dataclass(frozen=True)
class _Field:
    """What a field's texts are."""

    name: str = ""
    fixed: bool = False
    """One of some words, or of a pattern: an id, a hash, a key."""
    max_length: int | None = None
    """Where a text may be cut; None: nowhere."""
    json: bool = False
    """It holds any JSON: a number there may become a text."""


def changed_texts(value: W, change: Change, *, number: ChangeNumber = str) -> W:
    """A model like this one. Raises pydantic.ValidationError when it is none any more."""
    return type(value).model_validate(_changed(value, _Field(), change, number))


def _changed(value: Any, field: _Field, change: Change, number: ChangeNumber) -> Any:
    if isinstance(value, TokenMap):
        return value  # its texts are bitmaps
    if isinstance(value, BaseModel):
        fields = _fields(type(value))
        return {
            name: _changed(getattr(value, name), fields[name], change, number) for name in fields
        }
    if isinstance(value, str):
        return value if field.fixed or isinstance(value, Enum) else _text(value, field, change)
    if isinstance(value, dict):
        return {
            _changed(key, field, change, number): _changed(each, field, change, number)
            for key, each in value.items()
        }
    if isinstance(value, (list, tuple)):
        return type(value)(_changed(each, field, change, number) for each in value)
    if field.json and isinstance(value, (int, float)) and not isinstance(value, bool):
        text = str(int(value) if float(value).is_integer() else value)
        changed = number(text)
        return value if changed == text else changed
    return value


def _text(value: str, field: _Field, change: Change) -> str:
    text = change(value, field.name)
    return text if text == value else text[: field.max_length]


@cache
def _fields(cls: type[BaseModel]) -> dict[str, _Field]:
    is_action = "kind" in cls.model_fields  # half of what it types is another action
    found = {}
    for name, info in cls.model_fields.items():
        fixed, lengths = _facts(info.annotation, info.metadata)
        cut = None if is_action or not lengths else max(lengths)
        found[name] = _Field(name, fixed, cut, _holds_json(info.annotation))
    return found


def _holds_json(annotation: Any) -> bool:
    return annotation is JsonValue or any(_holds_json(each) for each in get_args(annotation))


def _facts(annotation: Any, metadata: Any = ()) -> tuple[bool, list[int]]:
    """Whether a field's text is fixed, and the longest it may be, of all that it may hold."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *more = get_args(annotation)
        return _facts(inner, more)
    fixed = origin is Literal or any(getattr(each, "pattern", None) for each in metadata)
    lengths: list[int] = []
    if origin not in _CONTAINERS:  # whose length is another one
        lengths = [each.max_length for each in metadata if getattr(each, "max_length", None)]
    if origin in (Union, UnionType, *_CONTAINERS):
        for inner in get_args(annotation):
            inner_fixed, inner_lengths = _facts(inner)
            fixed, lengths = fixed or inner_fixed, lengths + inner_lengths
    return fixed, lengths
