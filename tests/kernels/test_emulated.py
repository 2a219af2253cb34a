"""The CUDA kernels compute what the references do, block by block on the CPU: no GPU is needed."""

from __future__ import annotations

from typing import Any

import pytest

from agentserve.kernels import BackendUnavailable
from agentserve.kernels.cuda import support
from agentserve.kernels.spec import Case, Spec
from agentserve.kernels.specs import ALL

from . import emulator

pytestmark = [
    pytest.mark.skipif(bool(emulator.missing()), reason=emulator.missing() or ""),
    pytest.mark.timeout(900),
]

CASES = [
    pytest.param(spec, case, id=f"{spec.name}: {case.name}") for spec in ALL for case in spec.cases
]


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return emulator.build(tmp_path_factory.mktemp("emulated"))


@pytest.mark.parametrize(("spec", "case"), CASES)
def test_a_cuda_kernel_agrees_with_the_reference(
    spec: Spec, case: Case, module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(support, "_module", lambda device: module)
    if "cuda" in case.refused_by:
        with pytest.raises(BackendUnavailable):
            spec.check(case, "cuda")
    else:
        spec.check(case, "cuda")
