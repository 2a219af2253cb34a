"""What ``/metrics`` shows. One registry per app, so that several apps in a process do not mix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

from agentserve.core.sessions import SessionStatus, TurnResult
from agentserve.core.workers import Worker, WorkerState
from agentserve.router.admission import Admission
from agentserve.router.workers.metrics import WorkerMetrics

_TURN_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 300)
_PHASE_BUCKETS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300)
_CALL_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)
_LAG_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)


class Metrics:
    """The router's metrics; the names are part of its interface. No label holds what a client
    chooses: each has few values, whatever is asked. Those of workers are in WorkerMetrics.

    ================================================ ============================================
    agentserve_http_requests_total{method,route,status}  requests answered; status 0: none was sent
    agentserve_turns_total{outcome}                  turns by ``completed``, ``replayed`` or an
                                                     error code
    agentserve_turn_seconds                          time of completed turns
    agentserve_turn_phase_seconds{phase}             of it, by ``decode``, ``wait`` (for a place),
                                                     ``plan``, ``program``, ``store``; a phase that
                                                     is repeated counts anew
    agentserve_turn_retries_total{reason}            turns begun again after a loss
    agentserve_pin_moves_total{reason}               sessions that changed their worker
    agentserve_cache_losses_total{reason}            turns that found less in their worker's cache
                                                     than it had held
    agentserve_lost_tokens_total{reason}             prompt tokens computed again for that
    agentserve_prompt_tokens_total                   prompt tokens of all calls
    agentserve_cached_tokens_total                   of these, found in a worker's prefix cache
    agentserve_completion_tokens_total               generated tokens
    agentserve_host_restarts_total                   program hosts started again
    agentserve_pass_requests_total{outcome}          pass-through requests: ``ok``, ``refused``
                                                     (4xx) and ``failed`` (5xx) by the worker,
                                                     ``left`` by the client, or an error code
    agentserve_pass_first_byte_seconds               until a pass-through answer's first bytes
    agentserve_store_seconds{operation}              time of the store's calls
    agentserve_store_failures_total{operation}       those that failed; a version conflict is none
    agentserve_blob_bytes_total{outcome}             bytes of blobs that were put: ``stored``, or
                                                     ``known`` already
    agentserve_blobs_expired_total                   blobs removed because nobody used them
    agentserve_event_followers                       streams of events that are open
    agentserve_event_loop_lag_seconds                how late the event loop is with what is due
    agentserve_router_info{router,version}           1: which process this is; another one after a
                                                     restart
    agentserve_sessions{status}                      sessions by status, of all routers of a store
    agentserve_workers{state}                        workers by state
    agentserve_running_turns{kind}                   turns, and requests of the pass-through, that
                                                     run
    agentserve_queued_turns{kind}                    those that wait for a place
    ================================================ ============================================
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        r = self._registry
        self.requests = Counter(
            "agentserve_http_requests",
            "Requests answered.",
            ["method", "route", "status"],
            registry=r,
        )
        self.turns = Counter("agentserve_turns", "Turns by outcome.", ["outcome"], registry=r)
        self.turn_seconds = Histogram(
            "agentserve_turn_seconds", "Time of a turn.", buckets=_TURN_BUCKETS, registry=r
        )
        self.turn_retries = Counter(
            "agentserve_turn_retries", "Turns begun again.", ["reason"], registry=r
        )
        self.pin_moves = Counter("agentserve_pin_moves", "Pins moved.", ["reason"], registry=r)
        self.losses = Counter(
            "agentserve_cache_losses", "Turns that found too little.", ["reason"], registry=r
        )
        self.lost_tokens = Counter(
            "agentserve_lost_tokens", "Tokens computed again.", ["reason"], registry=r
        )
        self.prompt_tokens = Counter("agentserve_prompt_tokens", "Prompt tokens.", registry=r)
        self.cached_tokens = Counter("agentserve_cached_tokens", "Cached tokens.", registry=r)
        self.completion_tokens = Counter(
            "agentserve_completion_tokens", "Generated tokens.", registry=r
        )
        self.host_restarts = Counter(
            "agentserve_host_restarts", "Program hosts started again.", registry=r
        )
        self.phase_seconds = Histogram(
            "agentserve_turn_phase_seconds",
            "Time of a turn's phases.",
            ["phase"],
            buckets=_PHASE_BUCKETS,
            registry=r,
        )
        self.pass_requests = Counter(
            "agentserve_pass_requests", "Pass-through requests.", ["outcome"], registry=r
        )
        self.pass_first_byte = Histogram(
            "agentserve_pass_first_byte_seconds",
            "Time to the first bytes of a pass-through answer.",
            buckets=_PHASE_BUCKETS,
            registry=r,
        )
        self.store_seconds = Histogram(
            "agentserve_store_seconds",
            "Time of the store's calls.",
            ["operation"],
            buckets=_CALL_BUCKETS,
            registry=r,
        )
        self.store_failures = Counter(
            "agentserve_store_failures", "Calls that failed.", ["operation"], registry=r
        )
        self.blob_bytes = Counter(
            "agentserve_blob_bytes", "Bytes of blobs that were put.", ["outcome"], registry=r
        )
        self.blobs_expired = Counter("agentserve_blobs_expired", "Blobs removed.", registry=r)
        self.followers = Gauge("agentserve_event_followers", "Open event streams.", registry=r)
        self.loop_lag = Histogram(
            "agentserve_event_loop_lag_seconds",
            "How late the event loop is.",
            buckets=_LAG_BUCKETS,
            registry=r,
        )
        self.router = Gauge(
            "agentserve_router_info", "A router process.", ["router", "version"], registry=r
        )
        self._by_worker = WorkerMetrics(r)
        ProcessCollector(registry=r)
        self._sessions = Gauge("agentserve_sessions", "Sessions.", ["status"], registry=r)
        self._workers = Gauge("agentserve_workers", "Workers.", ["state"], registry=r)
        self._running = Gauge("agentserve_running_turns", "That run.", ["kind"], registry=r)
        self._queued = Gauge("agentserve_queued_turns", "That wait.", ["kind"], registry=r)

    def turn_completed(self, result: TurnResult) -> None:
        self.turns.labels("completed").inc()
        self.turn_seconds.observe(result.timings.total_ms / 1000)
        if result.loss is not None:
            self.losses.labels(result.loss.reason).inc()
            self.lost_tokens.labels(result.loss.reason).inc(result.loss.tokens)
        for call in result.usage.calls:
            self._by_worker.called(result.worker.id, call)
            self.prompt_tokens.inc(call.prompt_tokens)
            self.cached_tokens.inc(call.cached_tokens)
            self.completion_tokens.inc(call.completion_tokens)

    def released(self, worker_id: str, tokens: int) -> None:
        """See WorkerMetrics."""
        self._by_worker.released(worker_id, tokens)

    def render(
        self,
        sessions: Mapping[str, int] | None,
        workers: Iterable[Worker],
        admissions: Iterable[Admission] = (),
    ) -> bytes:
        """The text exposition, with the gauges set to what is now. ``sessions`` is None while the
        store cannot tell: then nothing is said of them, rather than that there are none."""
        self._sessions.clear()
        if sessions is not None:
            for status in SessionStatus:
                self._sessions.labels(status.value).set(sessions.get(status.value, 0))
        known = list(workers)
        states = [worker.state for worker in known]
        for state in WorkerState:
            self._workers.labels(state.value).set(states.count(state))
        for admission in admissions:
            self._running.labels(admission.name).set(admission.running)
            self._queued.labels(admission.name).set(admission.queued)
        self._by_worker.set(known, pinned=sessions is not None)
        return generate_latest(self._registry)
