"""The benchmark of a stream beside a long prompt, on a real worker."""

from __future__ import annotations

import pytest

from agentserve.bench.gap import GapReport, measure
from agentserve.bench.worker import BenchWorker
from agentserve.core.errors import InvalidRequest

from .conftest import ORIGIN


@pytest.mark.parametrize("encoded", [False, True])
def test_a_stream_waits_for_a_prompt(worker: BenchWorker, encoded: bool) -> None:
    told = []
    report = measure(worker, 500, encoded, 1, ORIGIN, lambda: told.append(1))
    assert GapReport.model_validate_json(report.model_dump_json()) == report
    assert [one.mode for one in report.modes] == ["chunked", "unchunked", "pruned"]
    assert len(told) == 3
    # the stack's workers have chunks beyond this prompt, and compute streams on their own
    assert (report.chunk > 500, report.mixed) == (True, False)
    for one in report.modes:
        (repeat,) = one.repeats
        assert 450 < repeat.prompt_tokens < 550
        # the stream stood still for as long as the prompt was computed
        assert one.largest == max(repeat.during) > 3 * one.alone > 0
        assert one.ttft > 3 * one.alone


def test_a_prompt_that_cannot_fit_is_told(worker: BenchWorker) -> None:
    with pytest.raises(InvalidRequest, match="do not fit"):
        measure(worker, 10**6, False, 1, ORIGIN, lambda: None)
