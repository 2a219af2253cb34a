"""HTTP for the threads of a host, as calls that can be broken off."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError
from typing import Any, Self

import httpx

from agentserve.core.config import KEEP_CONNECTION_S
from agentserve.core.deadlines import Deadline


class WorkerHttp:
    """The connection pool of a host, shared by its threads. A thread that waits for an answer
    cannot be stopped, so the waiting is done in an event loop of its own: a call whose deadline is
    ended closes its connection, by which the worker knows to abort it.

    To be used as a context manager.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="http", daemon=True)
        self._client = httpx.AsyncClient(
            trust_env=False,  # a proxy of the environment must not get between host and worker
            limits=httpx.Limits(
                max_connections=None,
                max_keepalive_connections=64,
                keepalive_expiry=KEEP_CONNECTION_S,
            ),
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._client.aclose(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def request(self, method: str, url: str, deadline: Deadline, **options: Any) -> httpx.Response:
        """Raises what httpx raises, and TurnTimeout when the deadline is ended meanwhile."""
        timeout = options.pop("timeout")
        request = self._client.build_request(method, url, timeout=timeout, **options)
        call = asyncio.run_coroutine_threadsafe(self._client.send(request), self._loop)
        with deadline.ending(call.cancel):
            try:
                return call.result()
            except CancelledError:
                raise deadline.exceeded() from None
