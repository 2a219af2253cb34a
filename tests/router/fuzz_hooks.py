"""For schemathesis: most requests are of a session, worker or blob that is there."""

from __future__ import annotations

import os
from typing import Any

import schemathesis

KNOWN = dict(pair.split("=") for pair in os.environ["AGENTSERVE_FUZZ_KNOWN"].split())
_turn = 0


@schemathesis.hook
def map_path_parameters(context: Any, path_parameters: dict[str, Any] | None) -> Any:
    global _turn
    _turn += 1
    if path_parameters and _turn % 5 and context.operation.method.upper() != "DELETE":
        return {name: KNOWN.get(name, value) for name, value in path_parameters.items()}
    return path_parameters
