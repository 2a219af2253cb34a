"""Fixtures of the tests of eviction."""

from __future__ import annotations

import pytest

from ..items.asking import Worker


@pytest.fixture
def cold(worker: Worker) -> Worker:
    """One with nothing in its cache."""
    worker.flush()
    return worker
