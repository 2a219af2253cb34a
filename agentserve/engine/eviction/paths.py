"""Where in the tree the sequences of each owner lie, so that they can leave it with them. Pure.

Bounded: what is forgotten leaves when SGLang wants the room, like everything else.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from dataclasses import dataclass, replace

from agentserve.engine.eviction.keys import Sequence, digest

MAX_OWNERS = 4096
MAX_PATHS = 32
"""Of one owner, who begins another with a prompt that does not go on from the one before."""
MAX_TOKENS = 8 << 20
"""Of all paths together, 8 bytes each."""


@dataclass(frozen=True)
class Namespace:
    """What tells equal keys in the tree apart."""

    salt: str | None = None
    extra: str | None = None


@dataclass(frozen=True)
class Path:
    """A sequence in the tree, from its root."""

    key: array[int]
    namespace: Namespace
    digest: bytes
    """Of the whole key."""
    sequences: tuple[Sequence, ...] = ()
    """Those remembered that lie at a beginning of it."""

    @property
    def end(self) -> tuple[int, int]:
        """Tells most ends apart without a digest."""
        return len(self.key), self.key[-1]

    def begins(self, other: Path) -> bool:
        """Whether ``other`` is this one, or goes on from it."""
        length, last = self.end
        return (
            length <= len(other.key)
            and other.key[length - 1] == last
            and self.namespace == other.namespace
            and self.digest == digest(other.key, length)
        )


class Paths:
    """Of one prefix tree, forgotten together with it."""

    def __init__(
        self, owners: int = MAX_OWNERS, paths: int = MAX_PATHS, tokens: int = MAX_TOKENS
    ) -> None:
        self._owner_limit, self._path_limit, self._token_limit = owners, paths, tokens
        self._of: OrderedDict[str, list[Path]] = OrderedDict()
        """The owner that went on last, and its latest path, last."""
        self._ends: dict[tuple[int, int], set[str]] = {}
        """(Length, last id) of the latest path -> its owners."""
        self._tokens = 0

    def reaches(
        self,
        owner: str,
        key: array[int],
        namespace: Namespace,
        sequence: Sequence | None = None,
    ) -> None:
        """A prompt of ``owner``, with its answer, lies at ``key``. ``sequence``: it was compacted
        to that one, and where the owner's others lay it lies now."""
        if not len(key):
            return
        path = Path(key, namespace, digest(key, len(key)))
        known = self._take(owner)
        if sequence is not None:  # one before may still lie where it did: others needed it
            self._put(owner, [replace(path, sequences=(sequence,))])
        else:
            before, left = [], []
            for one in known:
                (before if one.begins(path) else left).append(one)
            remembered = tuple(one for old in before for one in old.sequences)
            left.append(replace(path, sequences=remembered))
            self._put(owner, left[-self._path_limit :])
        while len(self._of) > self._owner_limit or self._tokens > self._token_limit:
            self._take(next(iter(self._of)))

    def leaves(self, owner: str) -> list[Path]:
        """The paths of an owner that is no more, the latest first; forgets them."""
        return self._take(owner)[::-1]

    def needed_by_others(self, owner: str, path: Path) -> int:
        """How many of the path's first tokens are all of another owner's latest prompt."""
        key = path.key
        return max(
            (
                length
                for (length, last), owners in self._ends.items()
                if length <= len(key)
                and key[length - 1] == last
                and any(self._of[one][-1].begins(path) for one in owners if one != owner)
            ),
            default=0,
        )

    def _take(self, owner: str) -> list[Path]:
        paths = self._of.pop(owner, [])
        if paths:
            self._tokens -= sum(len(path.key) for path in paths)
            owners = self._ends[paths[-1].end]
            owners.remove(owner)
            if not owners:
                del self._ends[paths[-1].end]
        return paths

    def _put(self, owner: str, paths: list[Path]) -> None:
        self._of[owner] = paths
        self._ends.setdefault(paths[-1].end, set()).add(owner)
        self._tokens += sum(len(path.key) for path in paths)
