"""Density peaks: on points that are obviously in clusters, and against its rules."""

from __future__ import annotations

import pytest
import torch

from agentserve.engine.pruning.cluster import density_peaks


def test_clouds_are_found():
    generator = torch.Generator().manual_seed(1)
    middles = torch.tensor([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    member = torch.arange(60) % 3
    points = middles[member] + torch.randn(60, 2, generator=generator) * 0.3
    centres, cluster = density_peaks(points, 3)
    assert sorted(member[centres].tolist()) == [0, 1, 2]
    assert torch.equal(member[centres][cluster], member)


@pytest.mark.parametrize("seed", range(20))
def test_each_point_is_of_the_nearest_centre(seed: int):
    generator = torch.Generator().manual_seed(seed)
    count = int(torch.randint(2, 40, (1,), generator=generator))
    points = torch.randn(count, 8, generator=generator)
    clusters = int(torch.randint(1, count + 1, (1,), generator=generator))
    centres, cluster = density_peaks(points, clusters)
    assert len(set(centres.tolist())) == clusters
    assert torch.equal(centres, centres.sort().values)
    assert torch.equal(cluster[centres], torch.arange(clusters))
    apart = (points[:, None] - points[centres][None]).norm(dim=-1)
    assert torch.allclose(apart.gather(1, cluster[:, None]).squeeze(1), apart.amin(1))


def test_equal_points():
    centres, cluster = density_peaks(torch.ones(6, 3), 2)
    assert centres.tolist() == [0, 1]
    assert cluster[:2].tolist() == [0, 1]
