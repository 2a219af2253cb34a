"""Which worker holds a session. Pure: snapshots of workers in, a worker out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from agentserve.core.families import FAMILIES
from agentserve.core.sessions import Pin
from agentserve.core.workers import Worker, WorkerState
from agentserve.router.pins.placement import Arrival, Load, place, rendezvous
from agentserve.router.store import ModelBinding

_ARCHITECTURES = {name: family for family in FAMILIES for name in family.architectures}


@dataclass(frozen=True)
class Need:
    """What a session needs of a worker. ``model`` is what the client asked for, ``binding`` what
    the session's token ids belong to once it was placed."""

    model: str | None = None
    binding: ModelBinding | None = None


def binding_of(worker: Worker) -> ModelBinding | None:
    """The model of a worker that can hold sessions; None for plain and unknown ones."""
    report = worker.report
    if report is None or report.architecture not in _ARCHITECTURES:
        return None
    return ModelBinding(
        served_model_name=report.served_model_name,
        tokenizer_sha256=report.tokenizer_sha256,
        family=_ARCHITECTURES[report.architecture].name,
    )


def names_of(worker: Worker) -> tuple[str, ...]:
    """The names under which a worker's model may be asked for."""
    if worker.report is None:
        return ()
    return (worker.report.served_model_name, worker.report.model)


def fits(worker: Worker, need: Need) -> bool:
    """Whether the worker is ready, takes sessions, and serves what this one needs."""
    if worker.state is not WorkerState.READY or worker.drain is not None:
        return False
    binding = binding_of(worker)
    if binding is None or (need.binding is not None and binding != need.binding):
        return False
    return need.model is None or need.model in names_of(worker)


def pick_worker(
    arrival: Arrival,
    workers: Iterable[Worker],
    need: Need,
    shared: Callable[[Worker], int] = lambda _: 0,
) -> Worker | None:
    """The fitting worker on which the session costs the fewest tokens: see placement. ``shared``
    tells the first tokens of its prompt that a worker has. None when no worker fits."""
    fitting = {worker.id: worker for worker in workers if fits(worker, need)}
    chosen = place(arrival, [_load(worker, shared(worker)) for worker in fitting.values()])
    return None if chosen is None else fitting[chosen]


def _load(worker: Worker, shared: int) -> Load:
    assert worker.report is not None
    return Load(
        worker_id=worker.id,
        capacity=worker.report.max_total_tokens,
        held=worker.held_tokens,
        sessions=worker.sessions,
        running=worker.running_turns,
        shared=shared,
    )


def pick_for_name(name: str, workers: Iterable[Worker]) -> Worker | None:
    """The worker for a pass-through name: the one with the fewest running turns, then by
    rendezvous hashing. Pins do not count: a name says nothing of how much it will ask."""
    return min(workers, key=lambda w: (w.running_turns, rendezvous(name, w.id)), default=None)


def why_lost(pin: Pin, worker: Worker | None) -> str | None:
    """Why a pin no longer holds: ``gone``, ``down``, ``restarted``; None while it does."""
    if worker is None:
        return "gone"
    if worker.state is not WorkerState.READY:
        return "down"
    if worker.boot_id != pin.boot_id:
        return "restarted"
    return None
