"""What tokens are called: clients' names run, names that no client can know are stored."""

from array import array

import numpy as np

from agentserve.engine.eviction.change import Change, Sealed
from agentserve.engine.eviction.keys import compact, rows_of, sequence_of

A, B = b"a" * 32, b"b" * 32
LENGTH = 8


def sentinels(identity: bytes, count: int) -> list[int]:
    return [int.from_bytes(identity[:6], "big") * 10 + i for i in range(count)]


def change(*sealed: Sealed, gone=(2, 3)) -> Change:
    kept = np.ones(LENGTH, np.uint8)
    kept[list(gone)] = 0
    return Change("me", LENGTH, np.packbits(kept).tobytes(), sealed)


def ids(*values: int) -> array:
    return array("q", values)


PLAIN = ids(*range(LENGTH), 50, 51)
ONE = change(Sealed(2, 4, A))


def test_what_stays_keeps_its_name_but_for_new_seals():
    plain, key = compact(PLAIN, PLAIN, ONE, sentinels)
    assert list(plain) == [0, 1, *sentinels(A, 2), 6, 7, 50, 51]
    assert [a == b for a, b in zip(plain, key, strict=True)] == [1, 1, 0, 0, 1, 1, 1, 1]
    assert rows_of(ONE, 10).tolist() == [0, 1, 4, 5, 6, 7, 8, 9]


def test_a_new_seal_s_name_tells_what_was_there_and_where_the_answer_ended():
    def name(key: array, of: Change = ONE) -> int:
        return compact(key, key, of, sentinels)[1][2]

    others = [
        name(ids(*PLAIN[:8], 50, 77)),  # the answer, of which a prompt need not have all
        name(ids(0, 1, 77, *PLAIN[3:])),  # what left
        name(ids(*PLAIN, 52)),
        name(PLAIN, change(Sealed(2, 4, B))),
    ]
    assert len({name(PLAIN), *others}) == 5


def test_a_sequence_is_known_by_its_plain_ids_and_stored_under_its_key():
    plain, key = compact(PLAIN, PLAIN, ONE, sentinels)
    sequence = sequence_of(plain, key, rebuilt=False)
    assert (sequence.sealed, sequence.tail.tolist()) == (4, [6, 7, 50, 51])
    assert sequence.where.tolist() == [2, 3]
    assert sequence.common(plain) == 8
    assert sequence.common(plain[:6] + ids(9, 50)) == 6
    later = plain + ids(60, 61)
    assert sequence.key_of(later) == key + ids(60, 61)
    assert later[:8] == plain


def test_names_of_earlier_seals_are_kept():
    plain, key = compact(PLAIN, PLAIN, ONE, sentinels)
    kept = np.packbits(np.array([1, 1, 1, 1, 0, 1, 1, 1], np.uint8)).tobytes()
    again = Change("me", 8, kept, (Sealed(4, 5, B),))
    plain_2, key_2 = compact(plain + ids(60), key + ids(60), again, sentinels)
    assert key_2[2:4] == key[2:4]
    assert plain_2[2:4] == plain[2:4]
    assert sequence_of(plain_2, key_2, rebuilt=False).where.tolist() == [2, 3, 4]
