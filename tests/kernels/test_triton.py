"""The Triton kernels, without a GPU: right in Triton's interpreter, and compiled for a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentserve.kernels import BackendUnavailable, similarity_merge
from agentserve.kernels.build import parse_log
from agentserve.kernels.specs import ALL

ROOT = Path(__file__).resolve().parents[2]
CASES = [f"{spec.name}: {case.name}" for spec in ALL for case in spec.cases]

pytest.importorskip("triton")
pytestmark = pytest.mark.timeout(900)


def run(program: str, *arguments: str) -> str:
    result = subprocess.run(
        [sys.executable, str(Path(__file__).with_name(program)), *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def interpreted() -> dict[str, str]:
    """What went wrong in the interpreter, by case; empty where all is well."""
    return json.loads(run("interpreted.py"))


@pytest.mark.parametrize("case", CASES)
def test_the_interpreter_agrees_with_the_reference(case: str, interpreted: dict[str, str]) -> None:
    assert interpreted[case] == "", interpreted[case]


def test_every_kernel_compiles_for_hopper_without_spills() -> None:
    kernels = parse_log(run("compiled.py", "90"))
    names = {kernel.name for kernel in kernels}
    assert names == {"_normalisers", "_columns", "_choose", "_move", "_find", "_average"}
    assert [kernel for kernel in kernels if kernel.spilled] == []


def test_a_cpu_is_refused_outside_the_interpreter() -> None:
    spec = ALL[-1]
    assert spec.name == similarity_merge.__name__
    with pytest.raises(BackendUnavailable, match="TRITON_INTERPRET=1"):
        similarity_merge(**spec.example(spec.cases[0]), backend="triton")
