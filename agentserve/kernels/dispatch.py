"""Chooses the backend of a call, and counts what became of the choice.

A call names a backend, or takes the best one its device has. A named backend that cannot run
raises: it is never exchanged for another behind the caller's back. An automatic choice may go on to
the next backend, and that is counted as a fallback of the one it left.
"""

from __future__ import annotations

import importlib
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import torch

Backend = Literal["torch", "triton", "cuda"]

_PACKAGES: Mapping[Backend, str] = {"torch": "eager", "triton": "triton", "cuda": "cuda"}
_BEST_FIRST: Mapping[str, tuple[Backend, ...]] = {"cuda": ("cuda", "triton", "torch")}


class BackendUnavailable(RuntimeError):
    """A backend cannot run this call here. It says why, and nothing has been written yet."""


@dataclass(frozen=True)
class Count:
    """What became of the calls of one operation that came to one backend."""

    hit: int = 0
    """Ran."""
    fallback: int = 0
    """Could not run, and an automatic choice went on to the next backend."""
    error: int = 0
    """Raised to the caller: a named backend that cannot run, or a failure of any kind."""


_counts: defaultdict[tuple[str, Backend], Count] = defaultdict(Count)


def counts() -> dict[tuple[str, Backend], Count]:
    """What became of all calls of this process so far, by (operation, backend): a copy."""
    return dict(_counts)


def dispatch(
    op: str, backend: Backend | None, device: torch.device, *args: Any, **kwargs: Any
) -> Any:
    """Call ``op`` with these arguments on ``backend``, or on the best one for ``device``.

    Raises:
        ValueError: no such backend, or what the operation says of its arguments.
        BackendUnavailable: the named backend cannot run this call.
    """
    if backend is not None:
        if backend not in get_args(Backend):
            raise ValueError(f"backend is one of {get_args(Backend)}, not {backend!r}")
        return _attempt(op, backend, args, kwargs)
    *better, last = _BEST_FIRST.get(device.type, ("torch",))
    for candidate in better:
        try:
            return _attempt(op, candidate, args, kwargs, or_else="fallback")
        except BackendUnavailable:
            continue
    return _attempt(op, last, args, kwargs)


def _attempt(
    op: str,
    backend: Backend,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    or_else: Literal["fallback", "error"] = "error",
) -> Any:
    outcome = "error"
    try:
        result = _implementation(op, backend)(*args, **kwargs)
        outcome = "hit"
    except BackendUnavailable:
        outcome = or_else
        raise
    finally:
        count = _counts[op, backend]
        _counts[op, backend] = replace(count, **{outcome: getattr(count, outcome) + 1})
    return result


def _implementation(op: str, backend: Backend) -> Callable[..., Any]:
    """The backend's function of that name, imported at its first use."""
    try:
        module = importlib.import_module(f"{__package__}.{_PACKAGES[backend]}.{op}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith(__package__):
            raise
        raise BackendUnavailable(f"there is no {backend} backend here: {error}") from error
    return getattr(module, op)
