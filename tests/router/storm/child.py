"""A router in a process of its own, which can be killed: ``python -m tests.router.storm.child``."""

from __future__ import annotations

import sys
from pathlib import Path

from agentserve.core.config import RouterConfig
from agentserve.router.server import run_router
from agentserve.testing.host import scripted_host

if __name__ == "__main__":
    data, blobs, store, workers_file, port = sys.argv[1:]
    config = RouterConfig(
        data=Path(data),
        blobs=Path(blobs),
        store=store,
        workers_file=Path(workers_file),
        health_interval_s=0.2,
        turn_timeout_s=30,
    )
    run_router(config, port=int(port), host_command=scripted_host)
