"""Fixtures of the end-to-end tests."""

from __future__ import annotations

import psutil
import pytest

from agentserve.cli.stack import Stack


@pytest.fixture
def host_processes(stack: Stack):
    """The router's program host processes, as they are when called."""

    def find() -> list[psutil.Process]:
        router = psutil.Process(stack.children["router"].process.pid)
        return [
            process
            for process in router.children(recursive=True)
            if "agentserve.lang.host" in " ".join(process.cmdline())
        ]

    return find
