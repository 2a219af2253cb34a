"""What rounds of measurements come to. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of the values that at least ``share`` of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def median_difference(values: Sequence[float], baseline: Sequence[float]) -> float:
    """Median over the rounds of how much more each was than the baseline of the same round."""
    return statistics.median(a - b for a, b in zip(values, baseline, strict=True))


def median_ratio(values: Sequence[float], baseline: Sequence[float]) -> float:
    """Median over the rounds of how many times the baseline of the same round each was."""
    return statistics.median(a / b for a, b in zip(values, baseline, strict=True))
