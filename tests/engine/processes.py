"""Workers of the tests' own, beside those of the session's stack."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from agentserve.cli.stack import free_port
from agentserve.engine.launch import WorkerOptions, worker_command
from agentserve.nano import nano_path

START_TIMEOUT_S = 280.0


@dataclass
class OwnWorker:
    """A worker process, leader of its own process group."""

    url: str
    process: subprocess.Popen
    log: Path

    def family(self) -> list[psutil.Process]:
        """The worker's process and all its descendants, as they are now."""
        leader = psutil.Process(self.process.pid)
        return [leader, *leader.children(recursive=True)]

    def wait_ready(self) -> None:
        """Raises AssertionError with the end of the log when it does not come up."""
        end = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < end and self.process.poll() is None:
            try:
                if httpx.get(f"{self.url}/health", timeout=5).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.25)
        raise AssertionError(f"the worker is not ready:\n{self.log.read_text()[-3000:]}")


def start_worker(
    folder: Path,
    model: Path | None = None,
    environment: Mapping[str, str] | None = None,
    **options: object,
) -> OwnWorker:
    """Start a worker on the CPU, of the nano model if none is given, without waiting for it;
    ``environment`` comes on top of this process's, ``options`` as in WorkerOptions."""
    port = free_port()
    command, whole = worker_command(
        WorkerOptions(str(model or nano_path()), device="cpu", port=port, **options),
        {**os.environ, **(environment or {})},
    )
    log = folder / f"worker-{port}.log"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command,
            env=whole,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
        )
    return OwnWorker(f"http://127.0.0.1:{port}", process, log)


def stop_worker(worker: OwnWorker) -> None:
    """Kill what is left of it."""
    try:
        os.killpg(worker.process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    worker.process.wait(30)


def still_running(processes: list[psutil.Process], timeout_s: float) -> list[psutil.Process]:
    """Those of ``processes`` that live (zombies do not) after at most ``timeout_s``."""
    end = time.monotonic() + timeout_s

    def lives(process: psutil.Process) -> bool:
        try:
            return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    while (alive := [p for p in processes if lives(p)]) and time.monotonic() < end:
        time.sleep(0.1)
    return alive
