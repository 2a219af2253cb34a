"""``agentserve bench gap``: how long a running stream waits while a long prompt is computed.

    stream   │ │ │ │ │      │      │      │ │ │ │      one bar a token
    prompt             ▓▓▓▓▓▓ ▓▓▓▓▓▓ ▓▓▓▓▓▓            chunk by chunk
                     asked                first token

Three prompts of one shape take turns, so that all meet the same machine: one that is cut into the
worker's chunks, one of which FastV takes half of the tokens, and one of which it takes none: a
prompt to be pruned inside the model is computed in one chunk from its first picture on.
"""

from __future__ import annotations

import base64
import secrets
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import pairwise
from typing import Any

import httpx
import numpy as np

from agentserve.bench.origin import Origin
from agentserve.bench.worker import BenchWorker
from agentserve.core.blobs import sha256_of
from agentserve.core.errors import AgentServeError, InvalidRequest, WorkerLost
from agentserve.core.item_urls import item_url
from agentserve.core.model import Wire
from agentserve.core.plans import Box, VisualItem
from agentserve.core.pruning import Compression, Pruning, check_compression
from agentserve.core.screens import Size
from agentserve.lang.prompt import Prompt
from agentserve.vision.cells import as_png
from agentserve.vision.regions import Region
from agentserve.vision.thinning import marked

MODES: dict[str, Compression] = {
    "chunked": Compression(),
    "unchunked": Compression(pruning=Pruning(method="fastv", ratio=0)),
    "pruned": Compression(pruning=Pruning(method="fastv", ratio=0.5)),
}
PICTURE = 10
"""Edge of a picture, in tokens."""
COLUMNS = 4
"""Pictures beside each other on a screen."""
VISUAL_SHARE = 0.64
"""Of a prompt's tokens."""
TAIL_TOKENS = 60
"""Text behind the pictures."""
ALONE = 40
"""Tokens that the stream gives before the prompt is sent."""
LONGEST = 2000
"""Tokens of a stream; it is cut when the prompt is done."""

Progress = Callable[[], None]
"""Is called after each prompt."""


class GapRepeat(Wire):
    """One prompt. Times are in ms."""

    prompt_tokens: int
    alone: float
    """Median gap between two tokens of the stream before the prompt was sent."""
    during: list[float]
    """All gaps from then on to the prompt's first token."""
    ttft: float
    """Of the prompt."""


class ModeFigures(Wire):
    """Medians over the repeats, in ms."""

    mode: str
    alone: float
    largest: float
    p95: float
    """Of the gaps while the prompt was computed."""
    ttft: float
    repeats: list[GapRepeat]


class GapReport(Wire):
    """What ``--json`` prints."""

    model: str
    device: str
    chunk: int
    """Most tokens of a chunk; 0 or less: no limit."""
    mixed: bool
    """Whether a chunk shares its batch with running streams."""
    prompt_tokens: int
    """Asked for."""
    encoded: bool
    """Whether the vision encoder had seen the pictures before."""
    origin: Origin
    modes: list[ModeFigures]


def measure(
    worker: BenchWorker,
    prompt_tokens: int,
    encoded: bool,
    repeats: int,
    origin: Origin,
    progress: Progress,
) -> GapReport:
    """Send prompts of about ``prompt_tokens``, ``repeats`` of each mode, beside a stream.
    ``encoded``: with pictures that the vision encoder has seen before.

    Raises InvalidRequest for a prompt that does not fit the model, or a model that cannot be pruned
    inside, and what the worker's client raises.
    """
    report = worker.report
    if prompt_tokens + LONGEST > min(report.context_length, report.max_total_tokens):
        raise InvalidRequest(
            f"prompts of {prompt_tokens} tokens beside a stream of {LONGEST} do not fit the worker",
            hint=f"it takes {report.context_length} in a prompt, {report.max_total_tokens} in all",
        )
    for compression in MODES.values():
        check_compression(compression, worker.family, report.layers)
    seen: dict[str, list[GapRepeat]] = {mode: [] for mode in MODES}
    worker.flush()
    run = secrets.token_hex(4)  # a worker keeps what it has encoded for an earlier run
    for number in range(repeats):
        for mode, compression in MODES.items():
            seed = f"{run} {mode} {number}"
            if encoded:
                worker.generate(_body(worker, prompt_tokens, seed, f"{run} before", Compression()))
            body = _body(worker, prompt_tokens, seed, seed, compression)
            seen[mode].append(_beside_stream(worker, body, f"stream {number}"))
            progress()
    info = worker.scheduling()
    return GapReport(
        model=worker.model,
        device=report.device,
        chunk=info.chunk,
        mixed=info.mixed,
        prompt_tokens=prompt_tokens,
        encoded=encoded,
        origin=origin,
        modes=[_figures(mode, repeats) for mode, repeats in seen.items()],
    )


class _Stream:
    """A stream of tokens in a thread of its own; ``times`` grows."""

    def __init__(self, worker: BenchWorker, seed: str) -> None:
        self.times: list[float] = []
        self._error: Exception | None = None
        self._left = threading.Event()
        self._body = {
            "input_ids": worker.tokenizer.encode(worker.text_of(30, seed)),
            "sampling_params": {
                "max_new_tokens": LONGEST,
                "ignore_eos": True,
                "temperature": 0,
            },
        }
        self._worker = worker
        self._thread = threading.Thread(target=self._run, name="stream")

    def __enter__(self) -> _Stream:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            with closing(self._worker.stream(self._body)) as events:
                for at, _ in events:
                    self.times.append(at)
                    if self._left.is_set():
                        return
        except (httpx.TransportError, AgentServeError) as error:
            self._error = error  # whoever waits for tokens tells

    def wait(self, tokens: int) -> None:
        """Until it has given so many. Raises WorkerLost when it ends before."""
        while len(self.times) < tokens:
            if not self._thread.is_alive():
                raise WorkerLost(
                    f"the stream beside the prompt ended after {len(self.times)} tokens"
                ) from self._error
            time.sleep(0.002)


def _beside_stream(worker: BenchWorker, body: dict[str, Any], seed: str) -> GapRepeat:
    with _Stream(worker, seed) as stream:
        stream.wait(ALONE)
        asked = time.perf_counter()
        answer, ttft = worker.generate(body)
        done = time.perf_counter()
        stream.wait(len(stream.times) + 1)
    times = stream.times
    gaps = [(start, end, (end - start) * 1000) for start, end in pairwise(times)]
    return GapRepeat(
        prompt_tokens=answer["meta_info"]["prompt_tokens"],
        alone=statistics.median(gap for _, end, gap in gaps if end <= asked),
        during=[round(gap, 2) for start, end, gap in gaps if end > asked and start < done],
        ttft=ttft,
    )


def _figures(mode: str, repeats: Sequence[GapRepeat]) -> ModeFigures:
    return ModeFigures(
        mode=mode,
        alone=statistics.median(one.alone for one in repeats),
        largest=statistics.median(max(one.during) for one in repeats),
        p95=statistics.median(float(np.percentile(one.during, 95)) for one in repeats),
        ttft=statistics.median(one.ttft for one in repeats),
        repeats=list(repeats),
    )


def _body(
    worker: BenchWorker, tokens: int, pictures_of: str, text_of: str, compression: Compression
) -> dict[str, Any]:
    """A prompt with text, pictures, and a little text again; a seed for each kind."""
    count = max(1, round(VISUAL_SHARE * tokens / PICTURE**2))
    items, pictures = _pictures(worker.family.grid, count, pictures_of, compression)
    prompt = Prompt(
        [], worker.tokenizer, worker.family, mosaic_of=f"gap {text_of}", compression=compression
    )
    prompt.begin_message("user")
    before = tokens - count * PICTURE**2 - TAIL_TOKENS
    prompt.text(worker.text_of(max(1, before), text_of))
    prompt.screen(tuple(items))
    prompt.text(worker.text_of(TAIL_TOKENS, text_of))
    sent = prompt.call_input()
    assert sent.metas is not None
    urls = map(item_url, sent.metas, (pictures[blob] for blob in sent.blobs))
    return {
        "input_ids": sent.ids,
        "image_data": list(urls),
        "sampling_params": {"max_new_tokens": 1, "temperature": 0},
    }


def _pictures(
    grid: int, count: int, seed: str, compression: Compression
) -> tuple[list[VisualItem], dict[str, str]]:
    """Coloured tiles, side by side on one screen; and their PNGs in base64 by blob."""
    edge = PICTURE * grid
    screen = Size(width=COLUMNS * edge, height=-(-count // COLUMNS) * edge)
    chance = np.random.default_rng(list(seed.encode()))
    items: list[VisualItem] = []
    pictures: dict[str, str] = {}
    for index in range(count):
        tiles = chance.integers(0, 256, (PICTURE, PICTURE, 3), np.uint8)
        png = as_png(tiles.repeat(grid, axis=0).repeat(grid, axis=1))
        box = Box(x=index % COLUMNS * edge, y=index // COLUMNS * edge, width=edge, height=edge)
        item = VisualItem(
            blob=sha256_of(png),
            size=Size(width=edge, height=edge),
            tokens=PICTURE**2,
            turn=0,
            screen=screen,
            box=box,
        )
        items.append(marked(item, Region(box), compression))
        pictures[item.blob] = base64.b64encode(png).decode()
    return items, pictures
