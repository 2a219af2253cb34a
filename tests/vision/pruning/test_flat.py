from __future__ import annotations

import numpy as np
import pytest

from agentserve.core.pruning import Pruning
from agentserve.vision.pruning import View, choose
from agentserve.vision.pruning.flat import FLAT_BITS, sameness

from .pictures import picture, sketch, view


def test_flat_tokens_go_first_up_to_the_ratio():
    pixels = picture("#aa#", "b##c")
    assert sketch(choose(Pruning(method="flat", ratio=0.95), view(pixels))) == ["x..x", ".xx."]
    assert sketch(choose(Pruning(method="flat", ratio=0.25), view(pixels))) == ["x..x", "xxxx"]


def test_the_ratio_is_a_ceiling():
    pixels = picture("####", "###a")
    assert sketch(choose(Pruning(method="flat", ratio=0.9), view(pixels))) == ["xxxx", "xxx."]


def test_of_a_flat_picture_something_stays():
    stays = choose(Pruning(method="flat", ratio=0.95), view(picture("aaa")))
    assert sketch(stays) == ["..x"]


def token(other: int, channel: int = 0) -> np.ndarray:
    """28 x 28 px of which so many differ from the rest in one channel."""
    pixels = np.full((28, 28, 3), 200, np.uint8)
    pixels.reshape(-1, 3)[:other, channel] = 10
    return pixels


@pytest.mark.parametrize("channel", range(3))
@pytest.mark.parametrize(("other", "goes"), [(0, True), (10, True), (11, False), (28, False)])
def test_how_flat_is_flat(other, goes, channel):
    noise = np.random.default_rng(0).integers(0, 256, (28, 28, 3), np.uint8)
    pixels = np.concatenate((token(other, channel), noise), axis=1)
    given = View(pixels, 28, np.ones((1, 2), bool))
    assert sketch(choose(Pruning(method="flat", ratio=0.9), given)) == [".x" if goes else "xx"]


def test_the_sums_are_the_entropy():
    def bits(pixels: np.ndarray) -> float:
        n = pixels.shape[0] * pixels.shape[1]
        return np.log2(n) - sameness(pixels.reshape(1, -1, 3))[0] / 2**20 / n

    def entropy(p: float) -> float:
        return -p * np.log2(p) - (1 - p) * np.log2(1 - p)

    assert bits(token(0)) == pytest.approx(0, abs=1e-6)
    assert bits(token(28)) == pytest.approx(entropy(28 / 784), abs=1e-6)
    assert bits(token(14, 2)) == pytest.approx(entropy(14 / 784), abs=1e-6)
    assert entropy(10 / 784) < FLAT_BITS < entropy(14 / 784)
    ramp = np.arange(256, dtype=np.uint8).reshape(16, 16, 1).repeat(3, 2)
    assert bits(ramp) == pytest.approx(8)
