"""Where each owner's sequences lie, and what others need of them."""

from array import array

import numpy as np

from agentserve.engine.eviction.keys import Sequence
from agentserve.engine.eviction.paths import Namespace, Path, Paths

PUBLIC = Namespace()


def ids(*values: int) -> array:
    return array("q", values)


def sequence(name: int) -> Sequence:
    return Sequence(b"", np.array([]), np.array([1]), np.array([name]))


def keys(paths: list[Path]) -> list[list[int]]:
    return [list(path.key) for path in paths]


def test_a_prompt_that_goes_on_takes_the_place_of_the_one_before():
    paths = Paths()
    paths.reaches("a", ids(1, 2, 3), PUBLIC)
    paths.reaches("a", ids(1, 2, 3, 4), PUBLIC)
    paths.reaches("a", ids(1, 9, 3), PUBLIC)
    paths.reaches("a", ids(1, 2, 3, 4), Namespace("salt"))
    paths.reaches("b", ids(7), PUBLIC)
    paths.reaches("b", ids(), PUBLIC)
    left = paths.leaves("a")
    assert keys(left) == [[1, 2, 3, 4], [1, 9, 3], [1, 2, 3, 4]]
    assert [path.namespace for path in left] == [Namespace("salt"), PUBLIC, PUBLIC]
    assert paths.leaves("a") == []
    assert keys(paths.leaves("b")) == [[7]]


def test_what_is_compacted_lies_nowhere_else():
    paths = Paths()
    first, second = sequence(800), sequence(900)
    paths.reaches("a", ids(1, 2, 3), PUBLIC)
    paths.reaches("a", ids(1, 5, 3), PUBLIC, first)
    paths.reaches("a", ids(1, 5, 3, 6), PUBLIC)
    paths.reaches("a", ids(1, 8, 3, 6), PUBLIC, second)
    (path,) = paths.leaves("a")
    assert list(path.key) == [1, 8, 3, 6]
    # where the first one lay others may need it still
    assert path.sequences == (second,)
    paths.reaches("a", ids(1, 8), PUBLIC, first)
    paths.reaches("a", ids(1, 8, 7), PUBLIC)
    assert paths.leaves("a")[0].sequences == (first,)


def test_what_others_end_with():
    paths = Paths()
    mine = Path(ids(1, 2, 3, 4), PUBLIC, b"")
    paths.reaches("me", mine.key, PUBLIC)
    assert paths.needed_by_others("me", mine) == 0
    paths.reaches("short", ids(1), PUBLIC)
    paths.reaches("fork", ids(1, 2, 3), PUBLIC)
    paths.reaches("elsewhere", ids(1, 9, 3), PUBLIC)
    paths.reaches("salted", mine.key, Namespace("salt"))
    assert paths.needed_by_others("me", mine) == 3
    paths.reaches("fork", ids(1, 2, 3, 7), PUBLIC)  # it has gone on, on a path of its own
    assert paths.needed_by_others("me", mine) == 1
    paths.reaches("twin", mine.key, PUBLIC)
    assert paths.needed_by_others("me", mine) == 4
    paths.leaves("twin")
    assert paths.needed_by_others("me", mine) == 1


def test_it_is_bounded():
    paths = Paths(owners=2, paths=2, tokens=10)
    for last in (4, 5, 6):
        paths.reaches("a", ids(1, last), PUBLIC)
    paths.reaches("b", ids(1), PUBLIC)
    paths.reaches("c", ids(2), PUBLIC)
    assert keys(paths.leaves("a")) == []
    paths.reaches("d", ids(*range(9)), PUBLIC)  # too many tokens: the one before has to go
    paths.reaches("e", ids(*range(2)), PUBLIC)
    assert [len(paths.leaves(owner)) for owner in "bcde"] == [0, 0, 0, 1]
    for last in (4, 5, 6):
        paths.reaches("a", ids(1, last), PUBLIC)
    assert keys(paths.leaves("a")) == [[1, 6], [1, 5]]
    # what has left counts no more
    for _ in range(20):
        paths.reaches("f", ids(1, 2, 3), PUBLIC)
        paths.leaves("f")
    paths.reaches("f", ids(1, 2, 3), PUBLIC)
    assert len(paths.leaves("f")) == 1
