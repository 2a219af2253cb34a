"""One worker with a random model, kept for all tests of visual items."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tokenizers import Tokenizer

from ..processes import start_worker, stop_worker
from .asking import Worker
from .checkpoint import random_checkpoint
from .reference import Reference


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_checkpoint(tmp_path_factory.mktemp("random"))


@pytest.fixture(scope="session")
def reference(checkpoint: Path) -> Reference:
    return Reference(checkpoint)


@pytest.fixture(scope="session")
def worker(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    # chunks so short that most prompts, and some items, take two
    own = start_worker(
        tmp_path_factory.mktemp("items"),
        model=checkpoint,
        sglang_arguments=("--chunked-prefill-size", "64"),
    )
    try:
        own.wait_ready()
        # a connection kept open may end just as it is used again
        limits = httpx.Limits(max_keepalive_connections=0)
        with httpx.Client(base_url=own.url, timeout=250, limits=limits) as client:
            yield Worker(client, Tokenizer.from_file(str(checkpoint / "tokenizer.json")))
    finally:
        stop_worker(own)
