"""What became different between two aria snapshots of a page: its structure and its words. Pure."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from agentserve.replay.compare.aria_tree import AriaNode, parse_aria
from agentserve.replay.compare.difference import Difference, against_accepted

MAX_PARTS = 50
_MAX_ALIGNED = 400
"""Children that are aligned with each other; longer lists by their beginning and end alone."""


def aria_differences(
    recorded: str, replayed: str, *, accepted: Sequence[str] = ()
) -> list[Difference]:
    """Compare two snapshots in Playwright's YAML; at most one difference, whose parts are the nodes
    that were added, removed or moved, and those whose name, text, state or property changed.

    How the YAML is written and in which order a node's states and properties are does not matter.
    Where there are ``accepted`` snapshots, the replayed one must be like one of them, in place of
    the recorded one; the changes are those from the last. Raises RecordingError for what is no
    snapshot.
    """
    if replayed in (accepted or [recorded]):
        return []
    now = parse_aria(replayed, "replayed")
    if accepted:
        found = [_compared(parse_aria(other, "accepted"), now) for other in accepted]
        changes = found[-1] if all(found) else []
    else:
        changes = _compared(parse_aria(recorded, "recorded"), now)
    if not changes:
        return []
    counts = Counter(change.what for change in changes)
    told = ", ".join(f"{count} {what}" for what, count in counts.most_common())
    if len(changes) > MAX_PARTS:
        told += f"; the first {MAX_PARTS} are listed"
    parts = [change.difference() for change in changes[:MAX_PARTS]]
    differences = [Difference(comparer="aria", field="aria", message=told, parts=parts)]
    return against_accepted(differences) if accepted else differences


@dataclass(frozen=True)
class _Change:
    what: str
    path: tuple[str, ...]
    """The roles from the page down to the node."""
    was: AriaNode | None
    now: AriaNode | None
    value: tuple[str, str] | None = None
    """Of a changed text, name, state or property."""

    def difference(self) -> Difference:
        node = self.was or self.now
        assert node is not None
        was, now = self.value or (
            None if self.was is None else str(self.was),
            None if self.now is None else str(self.now),
        )
        return Difference(
            comparer="aria",
            field=" > ".join([*self.path, node.role]),
            recorded=was,
            replayed=now,
            message=f"{node.role} {self.what}" if self.value is None else self.what,
        )


def _compared(was: AriaNode, now: AriaNode) -> list[_Change]:
    changes: list[_Change] = []
    _compare(was, now, (), changes)
    return _with_moves(changes)


def _compare(was: AriaNode, now: AriaNode, path: tuple[str, ...], out: list[_Change]) -> None:
    """Of two nodes of one role."""
    if was.fingerprint == now.fingerprint:
        return
    for what, before, after in (
        ("name changed", was.name, now.name),
        ("text changed", was.text, now.text),
        ("state changed", _told(was.states), _told(now.states)),
        ("property changed", _told(was.properties), _told(now.properties)),
    ):
        if before != after:
            out.append(_Change(what, path, was, now, (before, after)))
    inside = (*path, was.role) if was.role != "page" else path
    _compare_children(was.children, now.children, inside, out)


def _told(values: frozenset) -> str:
    """In one order, whatever the snapshot's was."""
    texts = (": ".join(value) if isinstance(value, tuple) else value for value in values)
    return ", ".join(sorted(texts))


def _compare_children(
    was: Sequence[AriaNode], now: Sequence[AriaNode], path: tuple[str, ...], out: list[_Change]
) -> None:
    old, new = ([node.fingerprint for node in nodes] for nodes in (was, now))
    begin, end = _same_ends(old, new)
    was, now = was[begin : len(was) - end], now[begin : len(now) - end]
    old, new = old[begin : len(old) - end], new[begin : len(new) - end]
    if len(old) + len(new) <= _MAX_ALIGNED:
        matcher = SequenceMatcher(None, old, new, autojunk=False)
        spans = [span[1:] for span in matcher.get_opcodes() if span[0] != "equal"]
    else:
        spans = [(0, len(old), 0, len(new))]
    for a, b, c, d in spans:
        _compare_span(was[a:b], now[c:d], path, out)


def _compare_span(
    was: Sequence[AriaNode], now: Sequence[AriaNode], path: tuple[str, ...], out: list[_Change]
) -> None:
    """Nodes of one role belong together: of one name and text rather than in their order."""
    pairs: dict[int, AriaNode] = {}
    taken: set[int] = set()
    for key in (lambda node: (node.role, node.name, node.text), lambda node: node.role):
        waiting: dict[object, deque[AriaNode]] = {}
        for other in now:
            if id(other) not in taken:
                waiting.setdefault(key(other), deque()).append(other)
        for node in was:
            if id(node) not in pairs and (found := waiting.get(key(node))):
                pairs[id(node)] = found.popleft()
                taken.add(id(pairs[id(node)]))
    places = {id(node): place for place, node in enumerate(now)}
    furthest = -1
    for node in was:
        other = pairs.get(id(node))
        if other is None:
            out.append(_Change("removed", path, node, None))
        elif places[id(other)] < furthest:  # it stands before what it stood behind
            out.append(_Change("moved", path, node, other))
            _compare(node, other, path, out)
        else:
            furthest = places[id(other)]
            _compare(node, other, path, out)
    out += [_Change("added", path, None, node) for node in now if id(node) not in taken]


def _same_ends(old: Sequence[int], new: Sequence[int]) -> tuple[int, int]:
    """How many are the same from the beginning, and from the end behind these."""
    most = min(len(old), len(new))
    begin = 0
    while begin < most and old[begin] == new[begin]:
        begin += 1
    end = 0
    while end < most - begin and old[-1 - end] == new[-1 - end]:
        end += 1
    return begin, end


def _with_moves(changes: list[_Change]) -> list[_Change]:
    """What was removed in one place and added in another has moved."""
    added: dict[int, list[_Change]] = {}
    for change in changes:
        if change.what == "added" and change.now is not None:
            added.setdefault(change.now.fingerprint, []).append(change)
    moved: set[int] = set()
    result = []
    for change in changes:
        to = added.get(change.was.fingerprint) if change.what == "removed" and change.was else None
        if to:
            arrived = to.pop(0)
            moved.add(id(arrived))
            change = replace(change, what="moved", now=arrived.now)
        result.append(change)
    return [change for change in result if id(change) not in moved]
