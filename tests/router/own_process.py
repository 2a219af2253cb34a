"""A server of the tests' own, in a process that can be killed and made to hang."""

from __future__ import annotations

import signal
import socket
import subprocess


class OwnProcess:
    _process: subprocess.Popen[bytes] | None = None

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


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
