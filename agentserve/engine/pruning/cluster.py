"""Clustering by density peaks over nearest neighbours."""

from __future__ import annotations

import torch
from torch import Tensor

_NEIGHBOURS = 5


def density_peaks(points: Tensor, clusters: int) -> tuple[Tensor, Tensor]:
    """``points`` float [n, d] -> the clusters' centres, int64 [clusters] indices of points in
    ascending order, and each point's cluster, int64 [n].

    Centres are points of high density (by the mean squared distance to the nearest neighbours) far
    from every denser one; a point belongs to the nearest centre (Du et al., Study on density peaks
    clustering based on k-nearest neighbors, 2016, as SparseVLM section 3.4 uses it).
    """
    count = len(points)
    distance = torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")
    distance = distance / points.shape[1] ** 0.5
    near = distance.topk(min(_NEIGHBOURS, count), largest=False).values
    density = torch.exp(-near.square().mean(dim=1))
    denser = density[None, :] > density[:, None]
    to_denser = torch.where(denser, distance, distance.max()).amin(dim=1)
    centres = torch.argsort(to_denser * density, descending=True, stable=True)[:clusters]
    centres = centres.sort().values
    cluster = distance[:, centres].argmin(dim=1)
    cluster[centres] = torch.arange(clusters, device=points.device)
    return centres, cluster
