"""What stays of a picture's features, on cases computed by hand and on random ones."""

from __future__ import annotations

import pytest
import torch

from agentserve.core.pruning import METHODS, Pruning, kept_count
from agentserve.engine.pruning.features import choose_features

ALL = [name for name, method in METHODS.items() if method.where == "features"]


def features(n: int, d: int = 24, seed: int = 0, dtype: torch.dtype = torch.float32):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("method", ALL)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("n", "ratio"), [(1, 0.9), (2, 0.5), (35, 0.3), (64, 0.5), (61, 0.95)])
def test_as_many_stay_as_were_announced_and_in_order(method, dtype, n, ratio):
    pruning = Pruning(method=method, ratio=ratio)
    given = features(n, dtype=dtype)
    kept, left = choose_features(pruning, given)
    assert kept.dtype == torch.int64
    assert kept.tolist() == sorted(set(kept.tolist()))
    assert len(kept) == kept_count(pruning, n)
    assert left.shape == (len(kept), 24) and left.dtype == dtype
    again, same = choose_features(pruning, given.clone())
    assert torch.equal(kept, again) and torch.equal(left, same)
    if method != "tome":
        assert torch.equal(left, given[kept])


@pytest.mark.parametrize("method", ALL)
def test_ratio_0_changes_nothing(method):
    given = features(17, dtype=torch.bfloat16)
    kept, left = choose_features(Pruning(method=method, ratio=0), given)
    assert kept.tolist() == list(range(17))
    assert torch.equal(left, given)


def test_tome_merges_what_is_alike_into_means_at_the_place_of_one():
    a, b, c = torch.eye(4)[:3]
    # 0 and 2 look at 1 and 3: 0 is like 1, and 2 is like 3
    kept, left = choose_features(
        Pruning(method="tome", ratio=0.25), torch.stack((a, 3 * a, b + c, b))
    )
    assert kept.tolist() == [1, 2, 3]
    assert torch.equal(left, torch.stack((2 * a, b + c, b)))


def test_tome_weighs_by_how_many_a_token_stands_for():
    x = torch.tensor([[0.0, 1.0], [0.0, 2.0], [0.0, 3.0], [0.0, 6.0]])
    # round 1: two pairs merged to 1.5 and 4.5, round 2: these two
    kept, left = choose_features(Pruning(method="tome", ratio=0.75), x)
    assert len(kept) == 1
    assert left.tolist() == [[0.0, 3.0]]
    # a mean of means would not do: the first has three tokens, the second one
    x = torch.tensor([[0.0, 1.0], [0.0, 2.0], [0.0, 3.0], [0.0, 6.0], [0.0, 8.0]])
    _, left = choose_features(Pruning(method="tome", ratio=0.9), x)
    assert left[0, 1].item() == pytest.approx(4.0)


def test_svd_keeps_what_no_other_token_says():
    # Ten tokens share one direction and have a tenth of its leverage each, two have their own. The
    # energies are 10, 4 and 1 of 15: the third direction is not among the dominant 90 %.
    one, two, three = torch.eye(6)[:3]
    x = torch.stack([one] * 5 + [2 * two] + [one] * 5 + [three])
    kept, _ = choose_features(Pruning(method="svd", ratio=0.9), x)
    assert len(kept) == 2 and 5 in kept
    scores = torch.linalg.svd(x.double(), full_matrices=False)[0][:, :2].square().sum(1)
    assert scores[[0, 5, 11]].tolist() == pytest.approx([0.1, 1, 0])
    kept, _ = choose_features(Pruning(method="svd", ratio=0.1), x)
    assert kept.tolist() == list(range(11))


@pytest.mark.parametrize("seed", range(5))
def test_svd_is_that_of_the_features_themselves(seed):
    x = features(40, 16, seed)
    u, s, _ = torch.linalg.svd(x, full_matrices=False)
    share = (s.square().cumsum(0) / s.square().sum()).tolist()
    k = next(i for i, part in enumerate(share, 1) if part >= 0.9)
    leverage = u[:, :k].square().sum(1)
    kept, _ = choose_features(Pruning(method="svd", ratio=0.5), x)
    assert kept.tolist() == sorted(leverage.argsort(descending=True)[:20].tolist())


def test_saliency_is_the_products_with_the_mean():
    x = torch.tensor([[1.0, 0.0], [4.0, 0.0], [0.0, 2.0], [-3.0, 1.0]])
    # the mean is (0.5, 0.75), the products 0.5, 2, 1.5, -0.75
    kept, _ = choose_features(Pruning(method="saliency", ratio=0.5), x)
    assert kept.tolist() == [1, 2]
    softmax = torch.softmax(x @ x.mean(0) / 2**0.5, dim=0)
    assert softmax.argsort(descending=True).tolist() == [1, 2, 0, 3]


def test_equal_tokens_are_no_matter_of_luck():
    for method in ALL:
        pruning = Pruning(method=method, ratio=0.5)
        first, _ = choose_features(pruning, torch.ones(16, 8))
        second, _ = choose_features(pruning, torch.ones(16, 8))
        assert torch.equal(first, second)


def test_other_methods_are_not_known_here():
    with pytest.raises(KeyError):
        choose_features(Pruning(method="uniform"), features(4))
