"""Runs every case in Triton's interpreter; prints what went wrong, by case, as JSON.

A program of its own (see test_triton): the interpreter must be chosen before Triton is imported,
and a process that uses it cannot compile for a GPU, as other tests may want to.
"""

from __future__ import annotations

import json
import os
import sys
import traceback

os.environ["TRITON_INTERPRET"] = "1"


def main() -> None:
    from agentserve.kernels.specs import ALL

    outcomes: dict[str, str] = {}
    for spec in ALL:
        for case in spec.cases:
            failure = ""
            try:
                spec.check(case, "triton")
            except (AssertionError, RuntimeError):
                failure = traceback.format_exc()
            outcomes[f"{spec.name}: {case.name}"] = failure
    json.dump(outcomes, sys.stdout)


if __name__ == "__main__":
    main()
