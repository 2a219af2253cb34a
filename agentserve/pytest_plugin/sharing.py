"""One router for all of xdist's workers: its controller starts it when the first of them asks.

They tell each other by files of a folder that the controller makes. A worker cannot start it for
the others: it may be done with its tests, and stop what it started, while they still need it.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

_WANTED = "wanted"
_ANSWER = "answer.json"
_POLL_S = 0.1
MAX_WAIT_S = 900.0
"""For a router and its model to start on a slow machine."""


class Offer:
    """The controller's side."""

    def __init__(self, start: Callable[[], str]) -> None:
        """``start`` gives the router's URL, and is called at most once, in a thread. What it raises
        is told to those that asked."""
        self._start = start
        self._temporary = tempfile.TemporaryDirectory(prefix="agentserve-router-")
        self.folder = Path(self._temporary.name)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="agentserve-offer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """A router that is being started is waited for: whoever started it stops it."""
        self._over.set()
        self._thread.join()
        self._temporary.cleanup()

    def _watch(self) -> None:
        while not (self.folder / _WANTED).exists():
            if self._over.wait(_POLL_S):
                return
        from agentserve.core.errors import AgentServeError

        try:
            answer = {"url": self._start()}
        except (AgentServeError, OSError) as error:
            answer = {"error": f"{error}"}
        whole = self.folder / f".{_ANSWER}"
        whole.write_text(json.dumps(answer))
        os.replace(whole, self.folder / _ANSWER)


def shared_router(folder: Path) -> str:
    """The URL, in a worker. Blocking. Raises NoWorker when the controller cannot start one, or does
    not within MAX_WAIT_S."""
    from agentserve.core.errors import NoWorker

    try:
        (folder / _WANTED).touch()
    except OSError as error:
        raise NoWorker(f"xdist's controller offers no router any more: {error}") from error
    end = time.monotonic() + MAX_WAIT_S
    while not (folder / _ANSWER).exists():
        if time.monotonic() > end or not folder.is_dir():
            raise NoWorker("xdist's controller has started no router")
        time.sleep(_POLL_S)
    answer = json.loads((folder / _ANSWER).read_text())
    if "url" not in answer:
        raise NoWorker(f"xdist's controller cannot start a router: {answer['error']}")
    return answer["url"]
