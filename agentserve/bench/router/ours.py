"""The router as ``agentserve serve`` runs it, with scripted program hosts instead of SGLang's:
``python -m agentserve.bench.router.ours --port PORT --data FOLDER --worker URL…``."""

from __future__ import annotations

import argparse
from pathlib import Path

from agentserve.core.config import RouterConfig
from agentserve.router.server import run_router
from agentserve.testing.host import scripted_host


def main() -> None:
    parser = argparse.ArgumentParser(description="the router of a benchmark")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--worker", action="append", required=True)
    parser.add_argument("--plain-workers", action="store_true")
    parser.add_argument("--store")
    parser.add_argument("--blobs", type=Path)
    parser.add_argument("--shared-port", type=int)
    arguments = parser.parse_args()
    config = RouterConfig(
        workers=tuple(arguments.worker),
        data=arguments.data,
        plain_workers=arguments.plain_workers,
        store=arguments.store,
        blobs=arguments.blobs,
        shared_port=arguments.shared_port,
    )
    run_router(config, port=arguments.port, host_command=scripted_host)


if __name__ == "__main__":
    main()
