"""The server's process: ``python -m agentserve.engine.serve SGLANG_ARGUMENTS…``.

multiprocessing imports this module in the scheduler and the detokenizer as well, before anything
else. So each of them is tied to its parent from its first moment, not (as SGLang does it) only
after the seconds of imports in which a killed parent would leave it behind.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys

from agentserve.engine.boot import PARENT_VARIABLE, boot_of

_PR_SET_PDEATHSIG = 1


def tie_to_parent() -> None:
    """Have the kernel kill this process when its parent ends; its own children are to do the same.

    No tie in a process whose environment names no parent.
    """
    parent = os.environ.get(PARENT_VARIABLE)
    if parent and sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != int(parent):  # it ended before the kernel was told
            os._exit(1)
    os.environ[PARENT_VARIABLE] = str(os.getpid())


def import_engine(*, server: bool) -> None:
    """Import SGLang with the garbage collector off, which takes a third off its processor time.

    Modules stay for good, so they are also taken out of all later collections.
    """
    gc.disable()
    from agentserve.engine import compat

    compat.import_engine(server=server)
    gc.freeze()
    gc.enable()


def main() -> None:
    import_engine(server=True)
    from agentserve.engine import compat, plugin

    def check() -> None:
        if boot_of() is not None:
            plugin.verify_hooks()

    compat.serve(sys.argv[1:], check)


if __name__ == "__main__":
    tie_to_parent()
    main()
elif __name__ == "__mp_main__":
    tie_to_parent()
    # Ctrl-C reaches every process of the terminal: only the server acts on it, and stops the rest.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import_engine(server=False)
