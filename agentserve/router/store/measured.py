"""A store whose calls are timed, and whose failures are counted."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

from prometheus_client import Counter, Histogram

from agentserve.core.errors import StorageFailed
from agentserve.router.store.base import Store

OPERATIONS = tuple(name for name, _ in inspect.getmembers(Store, inspect.iscoroutinefunction))
Call = Callable[..., Awaitable[Any]]


class MeasuredStore:
    """Any Store. ``seconds`` and ``failures`` have one label, the operation's name."""

    def __init__(self, store: Store, seconds: Histogram, failures: Counter) -> None:
        self._store = store
        self._seconds = seconds
        self._failures = failures
        for name in OPERATIONS:
            setattr(self, name, self._measured(name, getattr(store, name)))

    def __getattr__(self, name: str) -> Any:
        """What is no operation is the store's own."""
        return getattr(self._store, name)

    def _measured(self, name: str, call: Call) -> Call:
        seconds, failures = self._seconds.labels(name), self._failures.labels(name)

        @wraps(call)
        async def measured(*arguments: Any, **named: Any) -> Any:
            with seconds.time():
                try:
                    return await call(*arguments, **named)
                except StorageFailed:
                    failures.inc()
                    raise

        return measured
