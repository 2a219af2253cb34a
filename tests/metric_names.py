"""The metrics as their classes document them, for the tests that compare."""

from __future__ import annotations

import re

from agentserve.router.metrics import Metrics
from agentserve.router.workers.metrics import WorkerMetrics

ROW = re.compile(r"^ *(agentserve_\w+)(?:\{([a-z_,]+)\})?  +\S", re.M)


def documented_metrics() -> dict[str, tuple[str, ...]]:
    """Labels by name."""
    tables = f"{Metrics.__doc__}\n{WorkerMetrics.__doc__}"
    return {name: tuple(filter(None, labels.split(","))) for name, labels in ROW.findall(tables)}
