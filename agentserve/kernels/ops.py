"""The public functions: what each takes and gives, checks of shapes and types, dispatch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from agentserve.kernels.dispatch import Backend, dispatch

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def received_attention(
    q: Tensor,  # [rows, q_heads, dim]
    k_cache: Tensor,  # [pages, page_size, kv_heads, dim], q's dtype
    row_indptr: Tensor,  # int32 [batch + 1]
    row_positions: Tensor,  # int32 [rows]
    page_indptr: Tensor,  # int32 [batch + 1]
    pages: Tensor,  # int32 [page_indptr[-1]]
    last_page_len: Tensor,  # int32 [batch]
    *,
    scale: float,
    heads: Literal["mean", "sum"] = "mean",
    backend: Backend | None = None,
) -> Tensor:  # float32 [sum of the requests' KV lengths]
    """The softmax attention that each key of a request gets from the request's query rows.

    With L_b the KV length of request b, its rows r and query heads h:

        score[j] = heads over h of mean over r of softmax_j(scale * q[r, h] . k[j, h'])

    where h' is the KV head of h (GQA: q_heads is a multiple of kv_heads), and row r sees the keys
    j <= row_positions[r] only. ``q`` and ``k_cache`` are as the model's attention has them, after
    RoPE. The last row gives FastV's score (arXiv 2403.06764), the last w rows SnapKV's (2404.14469)
    before its pooling, the text rows SparseVLM's (2410.04417), all rows LOOK-M's (2406.18139).

    Request b's rows are ``q[row_indptr[b]:row_indptr[b + 1]]``. Its keys are in the pages
    ``pages[page_indptr[b]:page_indptr[b + 1]]``, the last of them with ``last_page_len[b]`` keys
    (as FlashInfer has it; NHD). Scores come request after request, in the order of the keys. A
    request without rows has scores 0; one without pages has none. No position is negative.

    A page size of 1 needs no synchronisation with the device; a larger one needs one.

    Raises:
        ValueError: a shape, a dtype or ``heads`` is not as above.
    """
    _check(q.dim() == 3 and k_cache.dim() == 4, "q has 3 axes, k_cache 4")
    _check(q.dtype == k_cache.dtype, f"q is {q.dtype}, k_cache {k_cache.dtype}")
    _check(q.dtype in _FLOATS, f"q is one of {_FLOATS}, not {q.dtype}")
    _check(q.shape[2] == k_cache.shape[3], f"dim {q.shape[2]} of q, {k_cache.shape[3]} of k_cache")
    _check(q.shape[1] % k_cache.shape[2] == 0, "q_heads is a multiple of kv_heads")
    _check(row_positions.shape == q.shape[:1], "one position a row")
    _check(
        row_indptr.shape == page_indptr.shape == (last_page_len.shape[0] + 1,),
        "row_indptr and page_indptr have batch + 1 entries, last_page_len batch",
    )
    indices = (row_indptr, row_positions, page_indptr, pages, last_page_len)
    _check(all(each.dtype == torch.int32 for each in indices), "indices are int32")
    _check(heads in ("mean", "sum"), f"heads is 'mean' or 'sum', not {heads!r}")
    return dispatch(
        "received_attention",
        backend,
        q.device,
        q,
        k_cache,
        *indices,
        scale=scale,
        heads=heads,
    )


def select_keep(
    scores: Tensor,  # float32 [n]
    indptr: Tensor,  # int32 [batch + 1], indptr[-1] == n
    keep: Tensor,  # int32 [batch]
    *,
    groups: Tensor | None = None,  # int32 [n] in -1..n_groups - 1; -1 is no group
    group_min: Tensor | None = None,  # int32 [n_groups]
    seed: int = 0,
    backend: Backend | None = None,
) -> tuple[Tensor, Tensor]:  # int64 [kept], int32 [batch + 1]
    """The best ``keep[b]`` of each request's scores; all of them if it has fewer.

    First every group of a request keeps its best ``group_min[group]`` (all of them if it has
    fewer): a group is all the request's scores of one number in ``groups``. The rest of the budget
    goes to the best of what is left. Minimums that exceed the budget raise it.

    Equal scores are ordered by a hash of (seed, index within the request), higher first, so the
    choice is the same on every device, with every backend, and whatever else is in the batch.
    NaN is lower than all else.

    Returns the kept indices, each relative to its request and ascending, request after request,
    and where each request's begin. Needs one synchronisation with the device.

    Raises:
        ValueError: a shape or a dtype is not as above, or only one of ``groups`` and ``group_min``.
    """
    _check(scores.dim() == 1 and scores.dtype == torch.float32, "scores is float32 [n]")
    _check(keep.shape == (indptr.shape[0] - 1,), "keep has batch entries, indptr batch + 1")
    _check(indptr.dtype == keep.dtype == torch.int32, "indptr and keep are int32")
    _check((groups is None) == (group_min is None), "groups and group_min come together")
    if groups is not None and group_min is not None:
        _check(groups.shape == scores.shape, "one group a score")
        _check(groups.dtype == group_min.dtype == torch.int32, "groups and group_min are int32")
    return dispatch(
        "select_keep",
        backend,
        scores.device,
        scores,
        indptr,
        keep,
        groups=groups,
        group_min=group_min,
        seed=seed,
    )


def compact_kv(
    k_buffers: Sequence[Tensor],  # per layer [slots, kv_heads, dim]
    v_buffers: Sequence[Tensor],  # per layer [slots, kv_heads, dim]
    source: Tensor,  # int64 [n]
    target: Tensor,  # int64 [n]
    *,
    backend: Backend | None = None,
) -> None:
    """Move the rows of slots ``source`` to slots ``target``, in all layers, K and V; in place.

    Bytes are moved, so any dtype will do. Targets are distinct. Source and target may overlap, as
    long as no move overwrites what a later one reads: ``target[i] != source[j]`` for j > i. Taking
    a sequence's kept rows to its first slots is always like that, in whatever order its slots lie:

        row     0    1    2    3    4        source  slots[1], slots[3], slots[4]
        slots   s0   s1   s2   s3   s4       target  slots[0], slots[1], slots[2]
        kept         x         x    x

    Raises:
        ValueError: buffers differ in shape, dtype or device, are not contiguous, or there are not
            as many sources as targets.
    """
    _check_buffers(k_buffers, v_buffers)
    _check(source.dim() == 1 and source.shape == target.shape, "as many sources as targets")
    _check(source.dtype == target.dtype == torch.int64, "source and target are int64")
    dispatch("compact_kv", backend, source.device, k_buffers, v_buffers, source, target)


def merge_kv(
    k_buffers: Sequence[Tensor],  # per layer [slots, kv_heads, dim]
    v_buffers: Sequence[Tensor],  # per layer [slots, kv_heads, dim]
    dropped: Tensor,  # int64 [m] slots
    kept: Tensor,  # int64 [n] slots, n >= 1
    *,
    backend: Backend | None = None,
) -> None:
    """Merge the dropped slots of one sequence into its kept ones; in place. Only kept slots are
    written. This is pivot merging of LOOK-M (arXiv 2406.18139).

    In each layer and KV head on its own, a dropped key goes to the kept key it is most similar to
    (cosine; of equal ones the first in ``kept``). With D_j what went to kept slot j:

        x'[j] = (x[j] + sum over i in D_j of (x[j] + x[i]) / 2) / (1 + |D_j|)    x = k, and x = v

    The keys decide for the values too. Sums are in float32. A slot is in one of the two only.

    Raises:
        ValueError: as ``compact_kv``, or a buffer's dtype is not float32, float16 or bfloat16, or
            nothing is kept.
    """
    _check_buffers(k_buffers, v_buffers)
    _check(k_buffers[0].dtype in _FLOATS, f"buffers are of {_FLOATS}, not {k_buffers[0].dtype}")
    _check(dropped.dim() == kept.dim() == 1, "dropped and kept have one axis")
    _check(dropped.dtype == kept.dtype == torch.int64, "dropped and kept are int64")
    _check(kept.shape[0] > 0, "something is kept")
    if dropped.shape[0] > 0:
        dispatch("merge_kv", backend, kept.device, k_buffers, v_buffers, dropped, kept)


def similarity_merge(
    x: Tensor,  # [n, d]
    sizes: Tensor,  # float32 [n]
    r: int,
    *,
    metric: Tensor | None = None,  # [n, e]; x itself if None
    backend: Backend | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # [n - r, d], float32 [n - r], int64 [n - r]
    """Merge ``r`` tokens into similar ones: ToMe's bipartite soft matching (arXiv 2210.09461,
    section 3).

    Tokens 0, 2, 4, ... look at tokens 1, 3, 5, ... Each of the former has an edge to the latter it
    is most similar to (cosine of ``metric``; of equal ones the first). The tokens of the ``r`` most
    similar edges (of equal ones the first) are merged into their edges' ends: the mean weighted by
    ``sizes``, which is how many tokens each stands for already. Sums are in float32.

    Returns the tokens that are left, in ``x``'s dtype, their sizes, and whose place each has
    (``representative``): its own. Ours is that they stay in their order: representatives ascend.

    Raises:
        ValueError: a shape or a dtype is not as above, or ``r`` is not in 0..n // 2.
    """
    metric = x if metric is None else metric
    _check(x.dim() == metric.dim() == 2, "x and metric have two axes")
    _check(x.dtype in _FLOATS and metric.dtype in _FLOATS, f"x and metric are of {_FLOATS}")
    _check(sizes.shape == x.shape[:1] == metric.shape[:1], "one size and one metric a token")
    _check(sizes.dtype == torch.float32, f"sizes are float32, not {sizes.dtype}")
    _check(0 <= r <= x.shape[0] // 2, f"r is in 0..{x.shape[0] // 2}, not {r}")
    if r == 0:
        return x.clone(), sizes.clone(), torch.arange(len(x), device=x.device)
    return dispatch("similarity_merge", backend, x.device, x, sizes, r, metric=metric)


def _check_buffers(k_buffers: Sequence[Tensor], v_buffers: Sequence[Tensor]) -> None:
    _check(len(k_buffers) == len(v_buffers) > 0, "as many K buffers as V buffers, at least one")
    first = k_buffers[0]
    _check(first.dim() == 3, "buffers are [slots, kv_heads, dim]")
    for buffer in (*k_buffers, *v_buffers):
        same = (buffer.shape, buffer.dtype, buffer.device)
        _check(same == (first.shape, first.dtype, first.device), "buffers are alike")
        _check(buffer.is_contiguous(), "buffers are contiguous")


def _check(holds: bool, rule: str) -> None:
    if not holds:
        raise ValueError(rule)
