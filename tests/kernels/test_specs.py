"""Every operation in plain torch gives what its reference gives."""

from __future__ import annotations

import pytest

from agentserve.kernels.spec import Case, Spec
from agentserve.kernels.specs import ALL

CASES = [
    pytest.param(spec, case, id=f"{spec.name}: {case.name}") for spec in ALL for case in spec.cases
]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("spec", "case"), CASES)
def test_torch_agrees_with_the_reference(spec: Spec, case: Case, seed: int) -> None:
    spec.check(case, "torch", seed)
