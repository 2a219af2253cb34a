"""What ``/metrics`` shows of each worker: gauges, which are set when they are asked for, and what
its cache was worth."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge

from agentserve.core.sessions import CallUsage
from agentserve.core.workers import Worker, WorkerState


class WorkerMetrics:
    """Labelled by the worker's id, which is the same for all routers and all its lives. A worker
    that is gone is shown no more.

    ================================================ ============================================
    agentserve_worker_info{worker,address,model}     1: where it is and what it serves
    agentserve_worker_state{worker,state}            1 for the state it is in, else 0
    agentserve_worker_resting{worker}                1 while its circuit is open: requests in a row
                                                     failed though its health is fine
    agentserve_worker_capacity_tokens{worker}        slots of its KV pool
    agentserve_worker_held_tokens{worker}            of these, expected to be taken by sessions
    agentserve_worker_sessions{worker}               open sessions that are pinned to it
    agentserve_worker_running_turns{worker}          turns and requests that this router runs on it
    agentserve_worker_prompt_tokens_total{worker}    prompt tokens of the calls that it answered
    agentserve_worker_cached_tokens_total{worker}    of these, found in its prefix cache
    agentserve_worker_released_tokens_total{worker}  slots that it freed when it was told that a
                                                     session was over
    agentserve_worker_drain_left{worker}             sessions that a drain has still to move; only
                                                     while it is drained
    agentserve_worker_drain_moved{worker}            sessions that its drain has moved
    agentserve_worker_drain_warmed_tokens{worker}    tokens that were computed elsewhere for them
    ================================================ ============================================
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, what: str, *labels: str) -> Gauge:
            made = Gauge(name, what, ["worker", *labels], registry=registry)
            self._all.append(made)
            return made

        self._all: list[Gauge] = []
        self._info = gauge("agentserve_worker_info", "A worker.", "address", "model")
        self._state = gauge("agentserve_worker_state", "Its state.", "state")
        self._resting = gauge("agentserve_worker_resting", "Its circuit is open.")
        self._capacity = gauge("agentserve_worker_capacity_tokens", "KV slots.")
        self._held = gauge("agentserve_worker_held_tokens", "KV slots of sessions.")
        self._sessions = gauge("agentserve_worker_sessions", "Pinned sessions.")
        self._running = gauge("agentserve_worker_running_turns", "Running turns and requests.")
        self._left = gauge("agentserve_worker_drain_left", "Sessions to move.")
        self._moved = gauge("agentserve_worker_drain_moved", "Sessions moved.")
        self._warmed = gauge("agentserve_worker_drain_warmed_tokens", "Tokens computed elsewhere.")
        self._prompt = Counter(
            "agentserve_worker_prompt_tokens", "Prompt tokens.", ["worker"], registry=registry
        )
        self._cached = Counter(
            "agentserve_worker_cached_tokens", "Cached tokens.", ["worker"], registry=registry
        )
        self._released = Counter(
            "agentserve_worker_released_tokens", "Freed slots.", ["worker"], registry=registry
        )
        self._counters = (self._prompt, self._cached, self._released)
        self._counted: set[str] = set()

    def called(self, worker_id: str, call: CallUsage) -> None:
        """A call of a completed turn."""
        self._counted.add(worker_id)
        self._prompt.labels(worker_id).inc(call.prompt_tokens)
        self._cached.labels(worker_id).inc(call.cached_tokens)

    def released(self, worker_id: str, tokens: int) -> None:
        """A worker was told of sessions that are over."""
        self._counted.add(worker_id)
        self._released.labels(worker_id).inc(tokens)

    def set(self, workers: Iterable[Worker], *, pinned: bool) -> None:
        """Show these workers and no others. ``pinned``: whether their pins are known."""
        for gauge in self._all:
            gauge.clear()
        known = {worker.id: worker for worker in workers}
        for gone in self._counted - known.keys():
            self._counted.remove(gone)
            for counter in self._counters:
                counter.remove(gone)
        for worker in known.values():
            self._set(worker)
            if pinned:
                self._held.labels(worker.id).set(worker.held_tokens)
                self._sessions.labels(worker.id).set(worker.sessions)

    def _set(self, worker: Worker) -> None:
        report = worker.report
        address = worker.url.partition("://")[2].rpartition("@")[2]  # without a password
        self._info.labels(worker.id, address, report.served_model_name if report else "").set(1)
        for state in WorkerState:
            self._state.labels(worker.id, state.value).set(state is worker.state)
        self._resting.labels(worker.id).set(worker.resting)
        if report is not None:
            self._capacity.labels(worker.id).set(report.max_total_tokens)
        self._running.labels(worker.id).set(worker.running_turns)
        if worker.drain is not None:
            self._left.labels(worker.id).set(worker.drain.left)
            self._moved.labels(worker.id).set(worker.drain.moved)
            self._warmed.labels(worker.id).set(worker.drain.warmed_tokens)
