"""What ``/metrics`` shows. One registry per app, so that several apps in a process do not mix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from agentserve.core.sessions import SessionStatus, TurnResult
from agentserve.core.workers import Worker, WorkerState
from agentserve.router.admission import Admission

_TURN_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 300)


class Metrics:
    """The router's metrics; the names are part of its interface.

    ================================================ ============================================
    agentserve_http_requests_total{method,route,status}  requests answered; status 0: none was sent
    agentserve_turns_total{outcome}                  turns by ``completed``, ``replayed`` or an
                                                     error code
    agentserve_turn_seconds                          time of completed turns
    agentserve_turn_retries_total{reason}            turns begun again after a loss
    agentserve_pin_moves_total{reason}               sessions that changed their worker
    agentserve_cache_losses_total{reason}            turns that found less in their worker's cache
                                                     than it had held
    agentserve_lost_tokens_total{reason}             prompt tokens computed again for that
    agentserve_prompt_tokens_total                   prompt tokens of all calls
    agentserve_cached_tokens_total                   of these, found in a worker's prefix cache
    agentserve_completion_tokens_total               generated tokens
    agentserve_host_restarts_total                   program hosts started again
    agentserve_sessions{status}                      sessions by status
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
            self.prompt_tokens.inc(call.prompt_tokens)
            self.cached_tokens.inc(call.cached_tokens)
            self.completion_tokens.inc(call.completion_tokens)

    def render(
        self,
        sessions: Mapping[str, int],
        workers: Iterable[Worker],
        admissions: Iterable[Admission] = (),
    ) -> bytes:
        """The text exposition, with the gauges set to what is now."""
        for status in SessionStatus:
            self._sessions.labels(status.value).set(sessions.get(status.value, 0))
        states = [worker.state for worker in workers]
        for state in WorkerState:
            self._workers.labels(state.value).set(states.count(state))
        for admission in admissions:
            self._running.labels(admission.name).set(admission.running)
            self._queued.labels(admission.name).set(admission.queued)
        return generate_latest(self._registry)
