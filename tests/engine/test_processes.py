"""However a worker's processes are killed, none is left behind."""

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from agentserve.engine.boot import PARENT_VARIABLE

from .processes import OwnWorker, start_worker, still_running, stop_worker


@pytest.fixture
def starting(tmp_path: Path):
    """A worker whose children have been started and are still importing."""
    worker = start_worker(tmp_path)
    try:
        yield worker
    finally:
        stop_worker(worker)


def wait_for_children(worker: OwnWorker, timeout_s: float = 200) -> list[psutil.Process]:
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        family = worker.family()
        # server, resource tracker, scheduler and detokenizer
        if len(family) >= 4:
            return family
        time.sleep(0.05)
    raise AssertionError(f"no children:\n{worker.log.read_text()[-2000:]}")


def test_a_killed_server_takes_its_starting_children_along(starting: OwnWorker):
    family = wait_for_children(starting)
    starting.process.kill()
    starting.process.wait(30)
    assert still_running(family, 10) == []


def test_a_worker_whose_parent_is_already_gone_does_not_start(tmp_path: Path):
    environment = os.environ | {PARENT_VARIABLE: "-1"}
    done = subprocess.run(
        [sys.executable, "-m", "agentserve.engine.serve"],
        env=environment,
        capture_output=True,
        timeout=100,
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")
