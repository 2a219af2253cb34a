"""Starts the processes of a training and follows their log. Does not import torch."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from agentserve.core.errors import InvalidRequest
from agentserve.nano.train.curves import LOG

_POLL_S = 1.0
_STOP_S = 60.0


def run_training(fields: dict[str, Any], processes: int) -> Iterator[dict[str, Any]]:
    """Train with ``processes`` processes of one thread each (one GPU: 1); yields the log's entries.

    ``fields`` are those of loop.TrainConfig, paths as text. When the caller stops early, the
    processes are ended; the last checkpoint stays. Raises InvalidRequest with the end of a
    process's output when one fails.
    """
    out = Path(fields["out"])
    out.mkdir(parents=True, exist_ok=True)
    log = out / LOG
    log.touch()
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "agentserve.nano.train", json.dumps(fields)]
    children: list[subprocess.Popen[bytes]] = []
    try:
        with log.open(encoding="utf-8") as entries:
            entries.seek(0, os.SEEK_END)
            for rank in range(processes):
                ranks = {} if processes == 1 else _ranks(rank, processes, port)
                with (out / f"process-{rank}.txt").open("wb") as told:
                    children.append(
                        subprocess.Popen(
                            command,
                            env={**os.environ, **ranks},
                            stdin=subprocess.DEVNULL,
                            stdout=told,
                            stderr=told,
                            start_new_session=True,  # Ctrl-C reaches us only; we end them
                        )
                    )
            while any(child.poll() is None for child in children):
                yield from map(json.loads, entries)
                if failed := [i for i, c in enumerate(children) if c.poll() not in (None, 0)]:
                    raise _failure(out, failed[0])
                time.sleep(_POLL_S)
            yield from map(json.loads, entries)
        if failed := [i for i, c in enumerate(children) if c.returncode]:
            raise _failure(out, failed[0])
    finally:
        for child in children:
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)
        for child in children:
            try:
                child.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def _ranks(rank: int, processes: int, port: int) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(processes),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
    }


def _failure(out: Path, rank: int) -> InvalidRequest:
    path = out / f"process-{rank}.txt"
    told = path.read_text(encoding="utf-8", errors="replace").strip()
    last = told.splitlines()[-1] if told else "it was killed"
    return InvalidRequest(f"the training failed: {last}", hint=f"{path} has the whole output")
