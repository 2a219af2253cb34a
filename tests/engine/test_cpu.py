"""The stand-in for SGLang's CUDA kernels, in a process of its own as on a worker."""

import subprocess
import sys

from agentserve.engine.cpu import cpu_environment


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=cpu_environment({}),
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_names_exist_and_refuse_to_run():
    out = run("""
import torch
import sgl_kernel
from sgl_kernel import silu_and_mul
from sgl_kernel.kvcacheio import transfer_kv_direct
from sgl_kernel.scalar_type import scalar_types

for name in (silu_and_mul, transfer_kv_direct, scalar_types.uint4b8, torch.ops.sgl_kernel.bmm_cpu):
    try:
        name(1, x=2)
    except NotImplementedError as error:
        print(str(error).split()[0])
""")
    assert out.split() == [
        "sgl_kernel.silu_and_mul",
        "sgl_kernel.kvcacheio.transfer_kv_direct",
        "sgl_kernel.scalar_type.scalar_types.uint4b8",
        "torch.ops.sgl_kernel.bmm_cpu",
    ]


def test_what_sglang_asks_for_to_see_what_a_machine_can_do_stays_missing():
    out = run("""
import sgl_kernel, torch
print(hasattr(torch.ops.sgl_kernel, "convert_weight_packed"), hasattr(sgl_kernel, "__wrapped__"))
""")
    assert out == "False False"


def test_flashinfer_is_out_of_sight():
    """It is installed for its headers, and importing it takes seconds."""
    out = run("""
try:
    import flashinfer
except ModuleNotFoundError as error:
    print(error.name)
""")
    assert out == "flashinfer"


def test_no_compiler_is_needed():
    assert cpu_environment({})["TORCHDYNAMO_DISABLE"] == "1"


def test_thread_counts_that_are_set_stay_set():
    assert cpu_environment({"OMP_NUM_THREADS": "4"})["OMP_NUM_THREADS"] == "4"
    assert cpu_environment({})["OMP_NUM_THREADS"] == "1"


def test_the_path_does_not_grow_with_every_start():
    once = cpu_environment({"PYTHONPATH": "/a"})
    assert cpu_environment(once) == once
