"""Workers of the tests' own, beside those of the session's stack."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tokenizers import Tokenizer

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
    own = start_worker(
        tmp_path_factory.mktemp("items"),
        model=checkpoint,
        # after every step, and not only between requests, each slot has to have one owner
        environment={
            "SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_BUSY": "1",
            "SGLANG_CHECK_KV_PAGE_INVARIANTS": "1",
        },
        sglang_arguments=(
            # chunks so short that most prompts, and some items, take two
            *("--chunked-prefill-size", "64"),
            "--enable-metrics",
        ),
    )
    try:
        own.wait_ready()
        # a connection kept open may end just as it is used again
        limits = httpx.Limits(max_keepalive_connections=0)
        with httpx.Client(base_url=own.url, timeout=250, limits=limits) as client:
            yield Worker(client, Tokenizer.from_file(str(checkpoint / "tokenizer.json")))
    finally:
        stop_worker(own)
