"""What tokens are called in the prefix tree. Pure.

Two sequences of ids stand for the same tokens. The *plain* one is what runs: token ids, and the
sentinels of every item and seal as a client's prompt gives them. The *key* is what the tree has: it
differs from it at seals that were made in place.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from agentserve.engine.eviction.change import Change

Sentinels = Callable[[bytes, int], list[int]]
"""(identity, n) -> the ids of n tokens of what has it."""


@dataclass(frozen=True)
class Sequence:
    """Tokens that were compacted, as they are stored.

    A prompt continues them when it begins with the same ids up to the last seal: what a client
    sends behind it need not be all of the answer (a stop string, say, is not in a transcript).
    """

    digest: bytes
    """Of the plain ids up to the last seal, that one included."""
    tail: np.ndarray
    """The plain ids behind it, int64."""
    where: np.ndarray
    """Indices at which the key differs from the plain ids, int64, ascending; at least one."""
    names: np.ndarray
    """The key's ids there, int64."""
    rebuilt: bool = False
    """Whether some of its KV was once lost, and computed anew from what was left."""

    @property
    def sealed(self) -> int:
        """How many tokens there are up to the last seal."""
        return int(self.where[-1]) + 1

    def common(self, plain: array[int]) -> int:
        """How many of the tokens ``plain`` begins with; 0 when not with all up to the seal."""
        if len(plain) < self.sealed or digest(plain, self.sealed) != self.digest:
            return 0
        behind = np.frombuffer(plain, np.int64)[self.sealed : self.sealed + len(self.tail)]
        differ = np.flatnonzero(behind != self.tail[: len(behind)])
        return self.sealed + (int(differ[0]) if len(differ) else len(behind))

    def key_of(self, plain: array[int]) -> array[int]:
        """The key of a sequence that begins with this one."""
        key = array("q", plain)
        np.frombuffer(key, np.int64)[self.where] = self.names
        return key


def digest(ids: array[int], length: int) -> bytes:
    """SHA-256 of the first ``length`` ids."""
    return hashlib.sha256(memoryview(ids)[:length]).digest()


def compact(
    plain: array[int], key: array[int], change: Change, sentinels: Sentinels
) -> tuple[array[int], array[int]]:
    """The plain ids and the key of what is left of a prompt and its answer.

    ``plain`` and ``key`` are those of all of it. The new seals' sentinels in the key come from the
    keys of all that was before them, and from all that ran: what is computed behind the answer's
    end, or behind the place where a prompt departs from it, no longer sees what left, though it may
    say the same as another answer.
    """
    rows = rows_of(change, len(plain))
    whole = digest(plain, len(plain))
    left = np.frombuffer(plain, np.int64)[rows]
    named = np.frombuffer(key, np.int64)[rows]
    for span in change.sealed:
        history = digest(key, int(rows[span.start]) + 1)
        count = span.end - span.start
        left[span.start : span.end] = sentinels(span.identity, count)
        identity = hashlib.sha256(b"agentserve in place" + whole + span.identity + history)
        named[span.start : span.end] = sentinels(identity.digest(), count)
    return array("q", left.tobytes()), array("q", named.tobytes())


def rows_of(change: Change, length: int) -> np.ndarray:
    """Which tokens of a prompt with its answer stay, int64; all of the answer does."""
    return np.concatenate((change.rows, np.arange(change.length, length)))


def sequence_of(plain: array[int], key: array[int], *, rebuilt: bool) -> Sequence:
    """``plain`` and ``key``, of which at least one id differs."""
    named, ids = np.frombuffer(key, np.int64), np.frombuffer(plain, np.int64)
    where = np.flatnonzero(ids != named)
    sealed = int(where[-1]) + 1
    return Sequence(digest(plain, sealed), ids[sealed:].copy(), where, named[where], rebuilt)
