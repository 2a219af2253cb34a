"""What every place of a picture should know, on a screen small enough to check by eye."""

import numpy as np
import pytest

from agentserve.nano.train.prompts import Speller
from agentserve.nano.train.targets import NONE, ROLES, overlaps, picture_targets


@pytest.fixture(scope="module")
def speller():
    return Speller()


RECORD = {
    # "Ok" in the second column of tokens, first row; its letters in patches (0, 2) and (0, 3)
    "words": [["Ok", 2.0, 12.0, 30.0, 40.0, 50.0], ["qzx", 30.0, 40.0, 2.0, 8.0, 14.0, 20.0]],
    "elements": [{"role": "button", "text": "Ok", "box": [28.0, 0.0, 56.0, 14.0]}],
}


def test_letters_stand_in_the_patch_that_holds_their_middle(speller):
    letters = picture_targets(RECORD, 2, 2, speller).characters
    assert letters.shape == (16, 95)
    # token (0, 1) has the patches 4 … 7, token (1, 0) the patches 8 … 11: two above, two below
    found = {(int(p), chr(int(c) + 32)) for p, c in zip(*np.nonzero(letters), strict=True)}
    # O and k: x = 35 and 45, y = 7; q, z and x: x = 5, 11 and 17, y = 35
    assert found == {(4, "O"), (5, "k"), (8, "q"), (8, "z"), (9, "x")}


def test_a_token_is_labelled_with_its_word(speller):
    words = picture_targets(RECORD, 2, 2, speller).words.reshape(2, 2)
    assert words[0, 1] == speller.word("Ok")
    assert words[0, 0] == words[1, 1] == speller.nothing
    assert words[1, 0] == NONE  # a word, but no single token


def test_a_token_knows_its_element(speller):
    targets = picture_targets(RECORD, 2, 2, speller)
    roles = targets.roles.reshape(2, 2)
    assert roles[0, 1] == ROLES.index("button") + 1
    assert roles.sum() == roles[0, 1]
    # the middle is (42, 7): bins 10 and 1
    assert targets.places.reshape(2, 2, 2)[0, 1].tolist() == [10, 1]
    assert (targets.places.reshape(2, 2, 2)[1] == NONE).all()


def test_overlaps_are_areas():
    area = overlaps(np.array([[14.0, 0.0, 42.0, 7.0]]), 1, 2)
    assert area.tolist() == [[[14 * 7, 14 * 7]]]
