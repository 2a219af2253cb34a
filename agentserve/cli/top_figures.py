"""What ``agentserve top`` shows, from two readings of each router's metrics. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from agentserve.core.workers import Worker

Labels = frozenset[tuple[str, str]]
Buckets = list[tuple[float, float]]
"""Upper edges, and how many were not above them; the last edge is infinite."""


class Samples:
    """One answer of ``/metrics``."""

    def __init__(self, text: str) -> None:
        self._values: dict[str, dict[Labels, float]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = frozenset(sample.labels.items())
                self._values.setdefault(sample.name, {})[labels] = sample.value

    def total(self, name: str) -> float:
        """The sum over all labels."""
        return sum(self._values.get(name, {}).values())

    def by(self, name: str, label: str) -> dict[str, float]:
        """Sums by one of the labels."""
        sums: dict[str, float] = {}
        for labels, value in self._values.get(name, {}).items():
            key = dict(labels).get(label, "")
            sums[key] = sums.get(key, 0.0) + value
        return sums

    def buckets(self, histogram: str) -> Buckets:
        counts = self.by(f"{histogram}_bucket", "le")
        return sorted((float(edge), count) for edge, count in counts.items())


@dataclass(frozen=True)
class Reading:
    """A router's metrics at a time, in seconds."""

    url: str
    at: float
    samples: Samples

    @property
    def router(self) -> str:
        """The process that answered: behind a proxy it is not always the same."""
        return next(iter(self.samples.by("agentserve_router_info", "router")), self.url)


@dataclass(frozen=True)
class Interval:
    """Two readings of the same process."""

    before: Reading
    after: Reading

    @property
    def seconds(self) -> float:
        return self.after.at - self.before.at

    def grown(self, name: str) -> float:
        return self.after.samples.total(name) - self.before.samples.total(name)

    def grown_by(self, name: str, label: str) -> dict[str, float]:
        before = self.before.samples.by(name, label)
        after = self.after.samples.by(name, label)
        # what a router has forgotten (a worker that was gone meanwhile) begins at 0 again
        return {key: max(0.0, value - before.get(key, 0.0)) for key, value in after.items()}

    def buckets(self, histogram: str) -> Buckets:
        before = dict(self.before.samples.buckets(histogram))
        after = self.after.samples.buckets(histogram)
        return [(edge, count - before.get(edge, 0.0)) for edge, count in after]


def quantile(share: float, buckets: Iterable[Buckets]) -> float | None:
    """Of several histograms together, as if values were spread evenly within a bucket; the last
    finite edge for what is above it. None when there is nothing."""
    counts: dict[float, float] = {}
    for each in buckets:
        for edge, count in each:
            counts[edge] = counts.get(edge, 0.0) + count
    edges = sorted(counts)
    if not edges or counts[edges[-1]] <= 0:
        return None
    wanted = share * counts[edges[-1]]
    low, below = 0.0, 0.0
    for edge in edges:
        if counts[edge] >= wanted and counts[edge] > below:
            if edge == float("inf"):
                return low
            return low + (edge - low) * (wanted - below) / (counts[edge] - below)
        low, below = edge, counts[edge]
    return low


@dataclass(frozen=True)
class RouterFigures:
    id: str
    url: str
    running: int
    queued: int
    followers: int
    memory_bytes: int
    turns_per_s: float | None
    requests_per_s: float | None
    lag_p99_s: float | None


@dataclass(frozen=True)
class WorkerFigures:
    worker: Worker
    running: int
    """Of all routers that were read."""
    cached_share: float | None
    """Of the prompt tokens of the interval's turns."""


@dataclass(frozen=True)
class Figures:
    """Everything at one time. What is told of an interval is None before there was one."""

    routers: list[RouterFigures] = field(default_factory=list)
    workers: list[WorkerFigures] = field(default_factory=list)
    troubles: dict[str, str] = field(default_factory=dict)
    """What a router could not tell, and why, by its URL."""
    sessions: dict[str, int] = field(default_factory=dict)
    running: int = 0
    queued: int = 0
    turns_per_s: float | None = None
    p50_s: float | None = None
    p95_s: float | None = None
    cached_share: float | None = None
    losses: dict[str, int] = field(default_factory=dict)
    """Since the routers were started, by reason."""
    new_losses: dict[str, int] = field(default_factory=dict)


def figures(
    latest: Iterable[Reading],
    intervals: Iterable[Interval],
    workers: Iterable[Worker],
    troubles: Mapping[str, str],
) -> Figures:
    """``latest``: one of each router process; ``intervals`` of those that were read twice."""
    latest, intervals = list(latest), list(intervals)
    by_router = {interval.after.router: interval for interval in intervals}
    prompt, cached = (
        _sums(i.grown_by(f"agentserve_worker_{kind}_tokens_total", "worker") for i in intervals)
        for kind in ("prompt", "cached")
    )
    running = _sums(r.samples.by("agentserve_worker_running_turns", "worker") for r in latest)
    rates = [_per_second(interval, "agentserve_turns_total") for interval in intervals]
    turns = [interval.buckets("agentserve_turn_seconds") for interval in intervals]
    return Figures(
        routers=[_router(reading, by_router.get(reading.router)) for reading in latest],
        workers=[
            WorkerFigures(
                worker=worker,
                running=int(running.get(worker.id, 0)),
                cached_share=_share(cached.get(worker.id, 0.0), prompt.get(worker.id, 0.0)),
            )
            for worker in workers
        ],
        troubles=dict(troubles),
        sessions=_sessions(latest),
        running=sum(_turns(r.samples, "running") for r in latest),
        queued=sum(_turns(r.samples, "queued") for r in latest),
        turns_per_s=sum(rates) if rates else None,
        p50_s=quantile(0.5, turns),
        p95_s=quantile(0.95, turns),
        cached_share=_share(sum(cached.values()), sum(prompt.values())),
        losses=_whole(_sums(r.samples.by(LOSSES, "reason") for r in latest)),
        new_losses=_whole(_sums(i.grown_by(LOSSES, "reason") for i in intervals)),
    )


LOSSES = "agentserve_cache_losses_total"


def _router(reading: Reading, interval: Interval | None) -> RouterFigures:
    samples = reading.samples
    rates = [None, None, None]
    if interval is not None:
        rates = [
            _per_second(interval, "agentserve_turns_total"),
            _per_second(interval, "agentserve_http_requests_total"),
            quantile(0.99, [interval.buckets("agentserve_event_loop_lag_seconds")]),
        ]
    return RouterFigures(
        id=reading.router,
        url=reading.url,
        running=_turns(samples, "running"),
        queued=_turns(samples, "queued"),
        followers=int(samples.total("agentserve_event_followers")),
        memory_bytes=int(samples.total("process_resident_memory_bytes")),
        turns_per_s=rates[0],
        requests_per_s=rates[1],
        lag_p99_s=rates[2],
    )


def _turns(samples: Samples, what: str) -> int:
    """Without the requests of the pass-through."""
    return int(samples.by(f"agentserve_{what}_turns", "kind").get("turns", 0))


def _sessions(latest: Iterable[Reading]) -> dict[str, int]:
    """Each router counts those of the whole store."""
    most: dict[str, float] = {}
    for reading in latest:
        for status, count in reading.samples.by("agentserve_sessions", "status").items():
            most[status] = max(count, most.get(status, 0.0))
    return _whole(most)


def _per_second(interval: Interval, name: str) -> float:
    return interval.grown(name) / interval.seconds


def _sums(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for part in parts:
        for key, value in part.items():
            sums[key] = sums.get(key, 0.0) + value
    return sums


def _whole(values: Mapping[str, float]) -> dict[str, int]:
    return {key: int(value) for key, value in values.items()}


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None
