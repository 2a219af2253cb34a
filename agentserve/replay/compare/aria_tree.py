"""Playwright's aria snapshots as trees.

A snapshot is YAML: a list of nodes, each ``role "name" [state] [state=value]``, with its text or
its children behind a colon, and properties (``/url: …``) among the children. It is read event by
event, so that nothing in it is built but these nodes: no tags, no aliases, no object of Python's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from agentserve.core.errors import AgentServeError, RecordingError
from agentserve.replay.bundle.format import MAX_ARIA_BYTES
from agentserve.replay.redaction.snapshots import quoted_placeholders

MAX_NODES = 20_000
MAX_DEPTH = 100

# The name is a JSON string; behind it, and behind the role alone, are states in square brackets.
_LABEL = re.compile(
    r"""(?P<role>[^\s"\[\]]+)"""
    r"""(?:\ (?P<name>"(?:[^"\\]|\\.)*"))?"""
    r"""(?P<states>(?:\ \[[^\]]*\])*)""",
    re.DOTALL,
)


@dataclass(frozen=True)
class AriaNode:
    """One node of the accessibility tree."""

    role: str
    name: str = ""
    """With its quotes, as it is written; empty without one."""
    states: frozenset[str] = frozenset()
    """As ``checked`` or ``level=2``."""
    text: str = ""
    properties: frozenset[tuple[str, str]] = frozenset()
    children: tuple[AriaNode, ...] = ()

    @cached_property
    def fingerprint(self) -> int:
        """Equal for equal trees: that of the children is computed once, not at every level."""
        below = tuple(child.fingerprint for child in self.children)
        return hash((self.role, self.name, self.states, self.text, self.properties, below))

    def __str__(self) -> str:
        states = "".join(f" [{state}]" for state in sorted(self.states))
        named = f"{self.role} {self.name}" if self.name else self.role
        return f"{named}{states}" + (f": {self.text}" if self.text else "")


def parse_aria(text: str, whose: str) -> AriaNode:
    """The snapshot as one node of the role ``page``. ``whose`` names it in errors, as ``recorded``.

    Raises RecordingError for what is no snapshot, or is larger or deeper than any page's.
    """
    if len(text.encode("utf-8", "surrogatepass")) > MAX_ARIA_BYTES:
        raise _bad(whose, f"larger than {MAX_ARIA_BYTES} bytes")
    reader = _Reader(whose)
    yaml = _yaml()
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        # a snapshot may have been stored before its placeholders were put in quotes
        for event in yaml.parse(quoted_placeholders(text), Loader=loader):
            reader.take(type(event).__name__, event)
    except (yaml.YAMLError, ValueError) as error:
        raise _bad(whose, str(error).replace("\n", " ")[:200]) from error
    return AriaNode("page", children=tuple(reader.top.nodes))


@dataclass
class _Level:
    """A list that is being read, and the label of the node that it belongs to."""

    label: str = ""
    nodes: list[AriaNode] = field(default_factory=list)
    properties: set[tuple[str, str]] = field(default_factory=set)


class _Reader:
    """Takes YAML events; nothing recursive, so that depth is bounded here and not by the stack."""

    def __init__(self, whose: str) -> None:
        self.whose = whose
        self.top = _Level()
        self.levels = [self.top]
        self.keys: list[str | None] = []
        """Of the mappings that are open: the label whose value comes next."""
        self.open: list[str] = []
        self.count = 0

    def take(self, kind: str, event: Any) -> None:
        if kind in {"ScalarEvent", "SequenceStartEvent", "MappingStartEvent"} and (
            event.anchor is not None or event.tag not in {None, "!"}
        ):
            raise _bad(self.whose, "it has an anchor or a tag")
        match kind:
            case "AliasEvent":
                raise _bad(self.whose, "it has an alias")
            case "ScalarEvent":
                self._scalar(event.value)
            case "MappingStartEvent":
                self._begin("mapping")
                self.keys.append(None)
            case "SequenceStartEvent":
                self._begin("list")
                self._begin_list()
            case "MappingEndEvent":
                self.open.pop()
                self.keys.pop()
            case "SequenceEndEvent":
                self.open.pop()
                self._end_list()

    def _begin(self, kind: str) -> None:
        if len(self.open) >= 2 * MAX_DEPTH:
            raise _bad(self.whose, f"deeper than {MAX_DEPTH} levels")
        inside = self.open[-1] if self.open else None
        fits = {"mapping": inside == "list", "list": inside != "list" and self._expects_value()}
        if not fits[kind]:
            raise _bad(self.whose, f"a {kind} in a {inside or 'document'}")
        self.open.append(kind)

    def _expects_value(self) -> bool:
        return not self.open or self.keys[-1] is not None

    def _scalar(self, value: str) -> None:
        inside = self.open[-1] if self.open else None
        if inside == "list":
            self._add(self._node(value, _Level()))
        elif inside == "mapping":
            label = self.keys[-1]
            if label is None:
                self.keys[-1] = value
                return
            self.keys[-1] = None
            if label.startswith("/"):
                self.levels[-1].properties.add((label, value))
            else:
                self._add(self._node(label, _Level(), value))
        elif value:
            raise _bad(self.whose, "it is no list of nodes")

    def _begin_list(self) -> None:
        if not self.keys:
            return  # the snapshot itself
        self.levels.append(_Level(self.keys[-1] or ""))
        self.keys[-1] = None

    def _end_list(self) -> None:
        if self.open:
            level = self.levels.pop()
            self._add(self._node(level.label, level))

    def _add(self, node: AriaNode) -> None:
        self.count += 1
        if self.count > MAX_NODES:
            raise _bad(self.whose, f"more than {MAX_NODES} nodes")
        self.levels[-1].nodes.append(node)

    def _node(self, label: str, level: _Level, text: str = "") -> AriaNode:
        found = _LABEL.fullmatch(label)
        if found is None:
            raise _bad(self.whose, f"{label[:80]!r} is no node")
        return AriaNode(
            role=found["role"],
            name=found["name"] or "",
            states=frozenset(re.findall(r"\[([^\]]*)\]", found["states"])),
            text=text,
            properties=frozenset(level.properties),
            children=tuple(level.nodes),
        )


def _yaml() -> Any:
    try:
        import yaml
    except ImportError as error:
        raise AgentServeError(
            "aria snapshots are compared as YAML, and PyYAML is not installed",
            hint="pip install 'agentserve[replay]'",
        ) from error
    return yaml


def _bad(whose: str, reason: str) -> RecordingError:
    return RecordingError(f"the {whose} aria snapshot: {reason}")
