"""How much of a prompt the next chunk takes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WAIT = 0
"""Nothing now: the request's next piece does not fit what is left of this batch."""


@dataclass(frozen=True)
class Room:
    """What a batch has for the next chunk of a request, in tokens."""

    left: int
    whole: int
    """A chunk's full size."""
    first: bool
    """Whether no other request is in the batch yet: then there will never be more room."""


def chunk(
    prefix: int,
    length: int,
    pictures: Sequence[tuple[int, int]],
    whole_from: int | None,
    room: Room,
) -> int:
    """Tokens of the next chunk of a prompt of ``length``, of which ``prefix`` are computed.

    ``pictures`` are spans [start, end) of the prompt, ascending; from ``whole_from`` on, and from
    the start of the picture that it is in, the prompt is not cut.

        │ computed │ text │ picture ▓▓▓▓│▓▓▓▓ │ text │
                 prefix   start ◄──── end     end of the picture
                          the cut moves back to the picture's start, or, when nothing comes before
                          it in the chunk, on to its end
    """
    end = prefix + room.left
    if end >= length:
        return length - prefix
    if whole_from is not None:
        whole_from = next(
            (start for start, stop in pictures if start < whole_from < stop), whole_from
        )
    if whole_from is not None and end > whole_from:
        if whole_from > prefix:
            return whole_from - prefix
        return length - prefix if room.first else WAIT
    for start, stop in pictures:
        if not start < end < stop:
            continue
        if start > prefix:
            return start - prefix
        if start < prefix or stop - start > room.whole:
            return room.left
        return stop - prefix if room.first else WAIT
    return room.left


def cut_at(end: int, pictures: Sequence[tuple[int, int]]) -> int:
    """How many pictures a chunk that ends at ``end`` leaves half done."""
    return sum(start < end < stop for start, stop in pictures)
