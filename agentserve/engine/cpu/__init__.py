"""Running stock SGLang on a machine without a GPU: its environment, arguments and a stand-in for
the one CUDA-only module that it cannot be imported without."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

STAND_IN = Path(__file__).parent / "stand_in"
"""Goes first on PYTHONPATH: every process of the server then finds the stand-in."""

# Sized for a laptop: two workers on two cores with 24 GiB answer at once. Whatever the user gives
# comes later on the command line and wins.
_ARGUMENTS = (
    *("--device", "cpu"),
    *("--attention-backend", "torch_native"),  # the default on x86 needs AMX
    *("--dtype", "float32"),  # bf16 takes up to twice the time here
    *("--max-total-tokens", "65536"),
    *("--max-running-requests", "16"),
    *("--mem-fraction-static", "0.5"),
    *("--chunked-prefill-size", "4096"),
    *("--watchdog-timeout", "600"),
    "--sleep-on-idle",  # else an idle worker spins on a core
)


def cpu_arguments() -> list[str]:
    """SGLang's arguments on the CPU."""
    return list(_ARGUMENTS)


def cpu_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """``environment`` with what a server on the CPU needs; the first two stay if they are set."""
    paths = [str(STAND_IN), *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    return {
        "OMP_NUM_THREADS": "1",  # one core a worker: two workers share two cores without contention
        "TORCHDYNAMO_DISABLE": "1",  # compiling needs a C++ compiler on the machine
        **environment,
        "SGLANG_USE_CPU_ENGINE": "1",
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
    }
