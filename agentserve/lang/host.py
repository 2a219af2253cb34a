"""The program host process: runs programs' turns for a router, over a Unix socket.

    python -m agentserve.lang.host --socket PATH --blobs DIR --threads N --programs PATH [PATH …]

It keeps nothing between turns, so it may be killed at any moment, and it ends with its parent.
"""

from __future__ import annotations

import argparse
import io
import logging
import os
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from agentserve.core.config import LOG_FORMATS, LOG_LEVELS, LogConfig

PARENT_CHECK_S = 0.5

log = logging.getLogger("agentserve.lang.host")


class LogWriter(io.TextIOBase):
    """A stand-in for stdout that logs each line, whole lines only, from any thread."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._local = threading.local()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self._local.rest = (getattr(self._local, "rest", "") + text).split("\n")
        for line in lines:
            self._logger.info("%s", line)
        return len(text)


def watch_parent() -> None:
    """End this process as soon as the one that started it is gone."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_CHECK_S)
        os._exit(0)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


def bind(path: Path) -> socket.socket:
    """A listening Unix socket that only this user can reach, in place of a dead one's file."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        listener.bind(str(path))
    finally:
        os.umask(mask)
    return listener


def _stuck() -> None:
    log.critical("every thread runs a program that does not stop; giving up this process")
    os._exit(1)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m agentserve.lang.host", description=__doc__)
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--blobs", type=Path, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--programs", type=Path, nargs="+", required=True)
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--log-format", choices=LOG_FORMATS, default=LogConfig.format)
    parser.add_argument("--log-level", choices=LOG_LEVELS, default=LogConfig.level)
    args = parser.parse_args()

    watch_parent()

    # Imported only now: the watch must not miss the parent's end.
    from agentserve.core.logs import set_up_logs
    from agentserve.core.tracing import exporting

    set_up_logs(LogConfig(args.log_format, args.log_level))
    log.info("watching the parent process %d", os.getppid())
    sys.stdout = LogWriter(logging.getLogger("agentserve.program"))

    # The frontend comes first of what takes seconds.
    import uvicorn

    from agentserve.lang.frontend import import_frontend

    import_frontend()
    from agentserve.lang.http import WorkerHttp
    from agentserve.lang.registry import load_registry
    from agentserve.lang.service import create_app
    from agentserve.lang.turns import TurnRunner

    registry = load_registry(args.programs)
    log.info("programs: %s", ", ".join(sorted(registry.programs)) or "none")
    with WorkerHttp() as http, exporting("agentserve-program-host", args.trace):
        runner = TurnRunner(registry=registry, blobs=args.blobs, http=http)
        app = create_app(runner, threads=args.threads, on_stuck=_stuck)
        config = uvicorn.Config(
            app, loop="asyncio", log_config=None, access_log=False, timeout_graceful_shutdown=1
        )
        with suppress(KeyboardInterrupt):  # uvicorn has shut down, then raises the signal again
            uvicorn.Server(config).run(sockets=[bind(args.socket)])
    logging.shutdown()
    os._exit(0)  # a plain return would wait for the threads of programs that do not stop


if __name__ == "__main__":
    main()
