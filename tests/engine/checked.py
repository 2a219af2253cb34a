"""A worker with a random model whose cache SGLang checks at every step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from tokenizers import Tokenizer

from .items.asking import Worker
from .processes import start_worker, stop_worker

CHECKS = {
    # after every step, and not only between requests, each slot has to have one owner
    "SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_BUSY": "1",
    "SGLANG_CHECK_KV_PAGE_INVARIANTS": "1",
}


@contextmanager
def checked_worker(
    folder: Path,
    checkpoint: Path,
    *arguments: str,
    count_flops: bool = False,
    **environment: str,
) -> Iterator[Worker]:
    """A client of one that lives as long as the block. ``arguments`` are SGLang's."""
    own = start_worker(
        folder,
        model=checkpoint,
        environment=CHECKS | environment,
        count_flops=count_flops,
        # chunks so short that most prompts, and some items, take two
        sglang_arguments=("--chunked-prefill-size", "64", "--enable-metrics", *arguments),
    )
    try:
        own.wait_ready()
        # a connection kept open may end just as it is used again
        limits = httpx.Limits(max_keepalive_connections=0)
        with httpx.Client(base_url=own.url, timeout=250, limits=limits) as client:
            yield Worker(client, Tokenizer.from_file(str(checkpoint / "tokenizer.json")))
    finally:
        stop_worker(own)
