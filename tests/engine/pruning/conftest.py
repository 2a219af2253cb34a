"""Fixtures of the tests of pruning."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ..items.reference import Reference
from .asking import Judge, Logged, logged_worker
from .reference import PrunedReference

POOL = 1200
"""Slots of the wide worker."""


@pytest.fixture(scope="session")
def pruned_reference(reference: Reference) -> PrunedReference:
    return PrunedReference(reference)


@pytest.fixture(scope="session")
def judge(pruned_reference: PrunedReference) -> Judge:
    return Judge(pruned_reference)


@pytest.fixture(scope="session")
def wide(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Logged]:
    """A worker that computes several whole prompts in one batch, and has little room."""
    folder = tmp_path_factory.mktemp("wide")
    with logged_worker(folder, checkpoint, "--max-total-tokens", str(POOL)) as worker:
        yield worker
