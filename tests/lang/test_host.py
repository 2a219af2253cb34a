"""The program host as a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from agentserve.core.hosting import HostAnswer, ProgramList

ACT = "print('printed', instruction)\ns += sgl.user(screen(view)) + sgl.assistant(action(view))"
START_S = 90


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: the names of Unix sockets end at about 100 characters."""
    with tempfile.TemporaryDirectory(prefix="host-") as path:
        yield Path(path)


@pytest.fixture
def command(folder: Path, blobs: Path, programs: Path) -> list[str]:
    options = {"--socket": folder / "s", "--blobs": blobs, "--threads": 4, "--programs": programs}
    words = [str(word) for pair in options.items() for word in pair]
    return [sys.executable, "-m", "agentserve.lang.host", *words]


@pytest.fixture
def start(command: list[str], folder: Path) -> Iterator:
    """``start()``: a host process that answers, with its log in ``folder / "log"``."""
    processes: list[subprocess.Popen] = []

    def begin() -> subprocess.Popen:
        with (folder / "log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        processes.append(process)
        wait_until_ready(folder)
        return process

    yield begin
    for process in processes:
        process.kill()
        process.wait()


def client(folder: Path) -> httpx.Client:
    return httpx.Client(
        transport=httpx.HTTPTransport(uds=str(folder / "s")), base_url="http://host", timeout=30
    )


def wait_until_ready(folder: Path) -> None:
    end = time.monotonic() + START_S
    while True:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(folder / "s"))
                return
            except OSError:
                assert time.monotonic() < end, (folder / "log").read_text()
        time.sleep(0.05)


def test_a_host_serves_turns_and_can_be_killed_at_any_time(
    write_program, start, folder: Path, make_turn, scripted
) -> None:
    write_program(ACT)
    process = start()
    assert stat.S_IMODE((folder / "s").stat().st_mode) == 0o600
    turn = make_turn("probe", scripted.url, worker_id="w-1").model_dump_json()
    with client(folder) as http:
        listing = ProgramList.model_validate(http.get("/programs").json())
        before = HostAnswer.model_validate(http.post("/turns", content=turn).json())
    assert [info.name for info in listing.programs] == ["probe"]

    process.kill()
    process.wait()
    start()  # over the dead one's socket file
    with client(folder) as http:
        after = HostAnswer.model_validate(http.post("/turns", content=turn).json())
    assert after == before

    log = (folder / "log").read_text()
    assert log.count("agentserve.program") == 2
    printed = next(line for line in log.splitlines() if line.endswith("printed Press OK"))
    about = ("session_id=s_test", "request_id=r_test", "turn=0", "worker_id=w-1")
    assert all(field in printed for field in about)


def test_a_host_stops_when_asked(write_program, start) -> None:
    write_program(ACT)
    process = start()
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == -signal.SIGTERM


def test_a_host_ends_with_its_parent(write_program, command: list[str], folder: Path) -> None:
    write_program(ACT)
    script = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen(sys.argv[1:])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    with (folder / "log").open("wb") as log:
        parent = subprocess.Popen(
            [sys.executable, "-c", script, *command], stdout=subprocess.PIPE, stderr=log
        )
        assert parent.stdout is not None
        host = psutil.Process(int(parent.stdout.readline()))
        end = time.monotonic() + START_S
        while b"watching" not in (folder / "log").read_bytes() and time.monotonic() < end:
            time.sleep(0.02)
        # it still imports: there is no server yet that could be told to stop
        assert os.path.exists(folder / "s") is False
        parent.kill()
        parent.wait()
        parent.stdout.close()
    _, alive = psutil.wait_procs([host], timeout=10)
    assert alive == []
