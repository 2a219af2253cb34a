"""The CUDA sources compile, and no kernel spills registers."""

from __future__ import annotations

import pytest

from agentserve.kernels import build

pytestmark = pytest.mark.timeout(900)
SOAK = [pytest.param(arch, marks=pytest.mark.soak) for arch in ("80", "100a")]


@pytest.mark.parametrize("arch", ["90a", *SOAK])
def test_no_kernel_spills(arch: str) -> None:
    if reason := build.missing():
        pytest.skip(reason)
    kernels = build.compile_objects(arch)
    names = {build.readable(kernel.name).split("<")[0] for kernel in kernels}
    assert names == {
        *("normalisers", "columns", "mark_best", "move_rows"),
        *("find_pivots", "find_edges", "average"),
    }
    assert [kernel for kernel in kernels if kernel.spilled] == []
