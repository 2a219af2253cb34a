"""A redis-server of the tests' own: on 127.0.0.1 and a socket, in its own folder, ended by pid."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


class RedisServer:
    """Runs from ``start`` (or entering) until ``kill`` (or leaving); its data stays in between."""

    def __init__(self, *options: str) -> None:
        # not pytest's folders: a socket's path has at most 107 characters
        self.folder = Path(tempfile.mkdtemp(prefix="redis-"))
        self.socket = self.folder / "s"
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._options = options or DURABLE
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self.folder)

    def start(self) -> None:
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--unixsocket", str(self.socket), "--dir", str(self.folder), "--save", ""]
        log = self.folder / "log"
        with log.open("ab") as out:
            self._process = subprocess.Popen([*command, *self._options], stdout=out)
        deadline = time.monotonic() + 30
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"redis-server does not start:\n{log.read_text()}")
            time.sleep(0.05)

    def kill(self) -> None:
        """As a crash would; what it has acknowledged is on the disk."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
