"""A redis-server of the tests' own: on 127.0.0.1 and a socket, in its own folder, ended by pid."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

from .own_process import OwnProcess, free_port

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


class RedisServer(OwnProcess):
    """Runs from ``start`` (or entering) until ``kill`` (or leaving); its data stays in between."""

    def __init__(self, *options: str) -> None:
        # not pytest's folders: a socket's path has at most 107 characters
        self.folder = Path(tempfile.mkdtemp(prefix="redis-"))
        self.socket = self.folder / "s"
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._options = options or DURABLE

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

    def _ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False
