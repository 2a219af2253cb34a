"""What stood in password fields. It leaves memory by no way; names stand for it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from agentserve.core.elements import ElementTarget

MOST_NAMES = 40
"""Later passwords share the last one."""
MOST_PASSING = 150


class Hidden:
    """All that was in a password field, by the names of what it came to."""

    def __init__(self, known: Mapping[str, str] | None = None) -> None:
        """``known`` are secrets that were given, by their names: they keep them."""
        self._names: dict[str, str] = {value: name for name, value in (known or {}).items()}
        self._given = frozenset(self._names)
        self._now: dict[str, str] = {}
        self._lasting: dict[str, None] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Of what was typed or filled in, without those given."""
        return tuple(dict.fromkeys(name for value, name in self._own()))

    @property
    def lasting(self) -> dict[str, tuple[str, ...]]:
        """By name: what was in a field when something else was done. Pages may have it."""
        return self._by_name(self._lasting)

    @property
    def passing(self) -> dict[str, tuple[str, ...]]:
        """By name: what was in a field only while it was typed, the last MOST_PASSING."""
        left = [value for value, _ in self._own() if value not in self._lasting]
        return self._by_name(left[-MOST_PASSING:])

    def typed(self, value: str, passing: Sequence[str], target: ElementTarget | None) -> str:
        """The name of what is in the field now; empty when that is nothing."""
        name = self._name(value, target) if value else ""
        self._pass(passing, name, target)
        if name:
            self._now[name] = value
        return name

    def held(self, value: str | None, passing: Sequence[str], target: ElementTarget | None) -> None:
        """What is in a field without an act; None: what is in it was told before."""
        name = self._name(value, target) if value else ""
        self._pass(passing, name, target)
        if value:
            self._lasting[value] = None

    def left(self, name: str) -> None:
        """Something else is done than to type into this field."""
        if name in self._now:
            self._lasting[self._now[name]] = None

    def _own(self) -> list[tuple[str, str]]:
        return [(value, name) for value, name in self._names.items() if value not in self._given]

    def _by_name(self, values: Collection[str]) -> dict[str, tuple[str, ...]]:
        found: dict[str, list[str]] = {}
        for value in values:
            if value not in self._given:
                found.setdefault(self._names[value], []).append(value)
        return {name: tuple(each) for name, each in found.items()}

    def _pass(self, values: Sequence[str], name: str, target: ElementTarget | None) -> None:
        for value in values:
            if value and value not in self._names:
                self._names[value] = name or self._name(value, target)

    def _name(self, value: str, target: ElementTarget | None) -> str:
        if value not in self._names:
            # what is told while it is typed begins like the whole of it
            mine = (old for old in reversed(self._names) if old not in self._given)
            begun = next((old for old in mine if value.startswith(old)), "")
            self._names[value] = self._names[begun] if begun else self._new_name(target)
        return self._names[value]

    def _new_name(self, target: ElementTarget | None) -> str:
        """After the field, as an environment variable is called."""
        label = (target and target.text) or "PASSWORD"
        base = re.sub(r"[^A-Z0-9]+", "_", label.upper()).strip("_")[:40]
        if not re.match(r"[A-Z]", base):
            base = "PASSWORD"
        taken, name, number = dict.fromkeys(self._names.values()), base, 2
        if len(self.names) >= MOST_NAMES:
            return self.names[-1]
        while name in taken:
            name, number = f"{base}_{number}", number + 1
        return name
