"""What a turn spends its time on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from agentserve.core.tracing import span
from agentserve.router.metrics import Metrics

Phase = Literal["decode", "plan", "program", "store"]


@contextmanager
def phase(metrics: Metrics, name: Phase) -> Iterator[None]:
    """A part of a turn, for the time of the block."""
    with metrics.phase_seconds.labels(name).time(), span(name):
        yield
