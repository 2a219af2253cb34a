"""Start a command that dies with its parent: ``python -m agentserve.cli.child COMMAND…``.

The kernel sends SIGTERM to the command when the process that started it is gone, however it went
(Linux; elsewhere only an orderly stop ends it). The setting survives ``exec``.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it went before the setting was made
            sys.exit(1)
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
