"""Workers of the tests' own, beside those of the session's stack."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .checked import checked_worker
from .items.asking import Worker
from .items.checkpoint import random_checkpoint
from .items.reference import Reference
from .processes import OwnWorker, start_worker, stop_worker


@pytest.fixture(scope="module")
def plain_worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnWorker]:
    """A stock SGLang server, started like a worker but without the plugin."""
    worker = start_worker(tmp_path_factory.mktemp("plain"), plugin=False)
    try:
        worker.wait_ready()
        yield worker
    finally:
        stop_worker(worker)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_checkpoint(tmp_path_factory.mktemp("random"))


@pytest.fixture(scope="session")
def reference(checkpoint: Path) -> Reference:
    return Reference(checkpoint)


@pytest.fixture(scope="session")
def worker(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """One with a random model, for all tests of visual items and of eviction."""
    with checked_worker(tmp_path_factory.mktemp("items"), checkpoint) as worker:
        yield worker
