"""What a cache remembers beside its tree: compacted sequences, how far each owner's reach. Pure.

Both are bounded. What is forgotten costs time, never a wrong answer: a forgotten sequence is
computed anew, a forgotten owner's is adopted by others.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from agentserve.engine.eviction.keys import Sequence, digest

MAX_SEQUENCES = 4096
MAX_OWNERS = 4096


@dataclass(frozen=True)
class _End:
    """Where the last sequence of an owner ends in the tree."""

    length: int
    last: int
    """The key's last id: tells most ends apart without a digest."""
    digest: bytes


def _end(key: array[int]) -> _End:
    return _End(len(key), key[-1], digest(key, len(key)))


def _longest(ends: Iterable[_End], key: array[int], length: int) -> int:
    """Of those that are a beginning of the first ``length`` tokens of ``key``."""
    return max(
        (
            end.length
            for end in ends
            if end.length <= length
            and key[end.length - 1] == end.last
            and digest(key, end.length) == end.digest
        ),
        default=0,
    )


def _name(sequence: Sequence) -> tuple[bytes, bytes]:
    # the names tell all that ran, what is behind the last seal included
    return sequence.digest, sequence.names.tobytes()


class Memory:
    """Of one prefix tree, forgotten together with it."""

    def __init__(self, sequences: int = MAX_SEQUENCES, owners: int = MAX_OWNERS) -> None:
        self._limit, self._owner_limit = sequences, owners
        self._sequences: OrderedDict[tuple[bytes, bytes], Sequence] = OrderedDict()
        """By the digests of plain ids and names; the latest last."""
        self._at: dict[tuple[int, int], list[tuple[bytes, bytes]]] = {}
        """(Index, plain id) of a sequence's last seal -> keys of ``_sequences``, the latest last.
        A seal's plain id is one of a kind: few sequences have the same."""
        self._places: dict[tuple[bytes, bytes], tuple[int, int]] = {}
        self._ends: OrderedDict[str, _End] = OrderedDict()
        self._forks: OrderedDict[_End, None] = OrderedDict()
        """Where others go on of whom nothing is known yet. That they have is never told."""

    def remember(self, sequence: Sequence, plain: array[int]) -> None:
        """Take in ``sequence``, whose plain ids are ``plain``."""
        name = _name(sequence)
        self._forget(name)
        last = int(sequence.where[-1])
        self._sequences[name] = sequence
        self._places[name] = (last, plain[last])
        self._at.setdefault((last, plain[last]), []).append(name)
        if len(self._sequences) > self._limit:
            self._forget(next(iter(self._sequences)))

    def known(self, plain: array[int], seals: Iterable[int]) -> list[Sequence]:
        """The sequences that ``plain`` continues, those first of which it begins with the most
        tokens, of equal ones the latest.

        ``seals`` are the indices of the last token of every seal in it.
        """
        found = [
            (sequence.common(plain), sequence)
            for at in seals
            if at < len(plain)
            for name in reversed(self._at.get((at, plain[at]), ()))
            for sequence in [self._sequences[name]]
        ]
        found.sort(key=lambda entry: -entry[0])
        return [sequence for common, sequence in found if common]

    def reaches(self, owner: str, key: array[int]) -> None:
        """The last sequence of ``owner`` in the tree is ``key``."""
        self._ends.pop(owner, None)
        if len(key):
            self._ends[owner] = _end(key)
        if len(self._ends) > self._owner_limit:
            self._ends.popitem(last=False)

    def forks(self, owner: str, start: array[int], *, continued: bool) -> None:
        """Others go on as well from ``start``, which a prompt of ``owner`` found in the tree.

        ``continued``: it is of a remembered sequence. If it is not, and nothing is known of the
        owner, then what was forked has been lost, or was never here: ``start`` is what strangers
        happen to begin with. Held, it would be no one's as soon as they leave it.
        """
        if not len(start) or not (continued or owner in self._ends):
            return
        end = _end(start)
        self._forks[end] = None
        self._forks.move_to_end(end)
        if len(self._forks) > self._owner_limit:
            self._forks.popitem(last=False)

    def leaves(self, owner: str) -> None:
        """An owner is no more."""
        self._ends.pop(owner, None)

    def forget(self, sequence: Sequence) -> None:
        """Nobody can continue ``sequence`` any more: some of it up to its last seal is gone."""
        self._forget(_name(sequence))

    def needed_by_others(self, owner: str, key: array[int], length: int) -> int:
        """How many of the first ``length`` tokens of ``key`` another owner's sequence ends with."""
        others = (end for other, end in self._ends.items() if other != owner)
        return max(_longest(others, key, length), self.forked_from(key, length))

    def forked_from(self, key: array[int], length: int) -> int:
        """How many of them others go on from of whom nothing is known yet."""
        return _longest(self._forks, key, length)

    def _forget(self, name: tuple[bytes, bytes]) -> None:
        if self._sequences.pop(name, None) is None:
            return
        place = self._places.pop(name)
        self._at[place].remove(name)
        if not self._at[place]:
            del self._at[place]
