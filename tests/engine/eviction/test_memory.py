"""Sequences are found by what clients send; ends of others are found on a path."""

from array import array

import numpy as np

from agentserve.engine.eviction.keys import Sequence, digest
from agentserve.engine.eviction.memory import Memory


def ids(*values: int) -> array:
    return array("q", values)


def remember(memory: Memory, plain: array, where: list[int], name: int = 900) -> Sequence:
    sealed = where[-1] + 1
    sequence = Sequence(
        digest(plain, sealed),
        np.array(plain[sealed:], np.int64),
        np.array(where),
        np.array([name + len(plain) + index for index in where]),
    )
    memory.remember(sequence, plain)
    return sequence


def test_those_first_of_which_a_prompt_has_the_most():
    memory = Memory()
    short = remember(memory, ids(1, 70, 2), [1])
    long = remember(memory, ids(1, 70, 2, 71, 3, 4), [1, 3])
    other = remember(memory, ids(1, 70, 2, 71, 9), [1, 3])
    prompt = ids(1, 70, 2, 71, 3, 5)
    # the answer's end need not be there
    assert memory.known(prompt, [1, 3]) == [long, other, short]
    assert [one.common(prompt) for one in (long, other, short)] == [5, 4, 3]
    assert memory.known(ids(1, 70, 2, 71, 9), [1, 3]) == [other, long, short]
    # the seal must
    assert memory.known(ids(1, 70), [1]) == [short] and short.common(ids(1, 70)) == 2
    assert short.common(ids(1, 71, 2)) == 0
    assert memory.known(prompt, []) == []
    assert memory.known(ids(1), [1, 3]) == []


def test_of_two_with_the_same_plain_ids_the_latest_comes_first():
    memory = Memory()
    plain = ids(1, 70, 2)
    first = remember(memory, plain, [1], name=900)
    second = remember(memory, plain, [1], name=800)
    assert memory.known(plain, [1]) == [second, first]
    again = remember(memory, plain, [1], name=900)
    assert memory.known(plain, [1]) == [again, second]


def test_it_is_bounded():
    memory = Memory(sequences=2, owners=2)
    plains = [ids(1, 70 + i, 2) for i in range(3)]
    for plain in plains:
        remember(memory, plain, [1])
    assert [len(memory.known(plain, [1])) for plain in plains] == [0, 1, 1]
    for owner in "abc":
        memory.reaches(owner, ids(1, 2, 3))
    memory.reaches("c", ids(1))
    assert memory.needed_by_others("c", ids(1, 2, 3), 3) == 3
    memory.reaches("b", ids(9))
    assert memory.needed_by_others("c", ids(1, 2, 3), 3) == 0
    for start in (ids(1, 2), ids(1), ids(7)):
        memory.forks("c", start, continued=True)
    assert memory.needed_by_others("c", ids(1, 2, 3), 3) == 1


def test_ends_of_others_on_a_path():
    memory = Memory()
    key = ids(1, 2, 3, 4, 5)
    memory.reaches("me", key)
    assert memory.needed_by_others("me", key, 5) == 0
    memory.reaches("fork", key[:3])
    memory.reaches("elsewhere", ids(1, 2, 9, 4))
    assert memory.needed_by_others("me", key, 5) == 3
    assert memory.needed_by_others("me", key, 2) == 0
    memory.reaches("fork", ids(1, 2, 3, 7))  # it went on, on a path of its own
    assert memory.needed_by_others("me", key, 5) == 0


def test_what_was_forked_is_held_for_good():
    memory = Memory()
    start, key = ids(1, 2, 3), ids(1, 2, 3, 4, 5)
    memory.reaches("parent", start)
    memory.forks("parent", start, continued=False)
    memory.reaches("parent", key)
    assert memory.needed_by_others("parent", key, 5) == 3
    # by what the same owner forks later, too: of the first fork nothing is known yet
    memory.forks("parent", ids(1, 8), continued=False)
    memory.forks("parent", ids(), continued=False)
    assert memory.needed_by_others("parent", key, 5) == 3
    assert memory.needed_by_others("parent", key, 2) == 0


def test_what_strangers_begin_with_is_not_held_for_a_fork_that_was_lost():
    memory = Memory()
    key = ids(1, 2, 3)
    memory.reaches("stranger", key)
    memory.forks("parent", key[:2], continued=False)
    assert memory.needed_by_others("stranger", key, 3) == 0
    # of a remembered sequence it is what the fork begins with, whoever made it
    memory.forks("parent", key[:2], continued=True)
    assert memory.needed_by_others("stranger", key, 3) == 2
