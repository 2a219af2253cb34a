"""Fixtures shared by all tests: one real stack (two SGLang workers on the CPU, a router, a program
host) and one Chromium's path, each started once, when the first test asks for it."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from agentserve.cli.stack import Stack, StackOptions, local_stack, until_ready
from agentserve.client import RouterClient

ROOT = Path(__file__).resolve().parents[1]
WITH_MODELS = ("bench", "e2e", "engine", "kernels", "lang", "nano", "programs")
"""Folders whose tests compute: they share the stack, and memory is enough for one of it."""


class ByFolder(LoadScopeScheduling):
    """With ``-n 2``, what `make test` says, one process has the folders with models and the other
    one the rest, a folder at a time."""

    def _split_scope(self, nodeid: str) -> str:
        folder = nodeid.removeprefix("tests/").partition("/")[0]
        return "models" if folder in WITH_MODELS else folder


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFolder:
    return ByFolder(config, log)


def pytest_unconfigure() -> None:
    """Keep SWIG's type table alive for good: sentencepiece (0.2.1, which SGLang pins) destroys it
    at the interpreter's exit, after the types it needs for that, and crashes."""
    for name in [name for name in sys.modules if name.startswith("swig_runtime_data")]:
        for value in vars(sys.modules[name]).values():
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


@pytest.fixture(scope="session")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    """A running stack. A test that stops a part of it uses ``mend_stack``."""
    options = StackOptions(
        data=tmp_path_factory.mktemp("stack"), programs=(ROOT / "programs",), device="cpu"
    )

    def status(text: str) -> None:
        print(text, file=sys.stderr)

    async with local_stack(options, status) as running:
        yield running


@pytest.fixture
async def mend_stack(stack: Stack) -> AsyncIterator[Stack]:
    """The stack, for a test that kills parts: what is down afterwards is started again."""
    yield stack
    for name, part in list(stack.children.items()):
        if not part.running:
            await stack.restart(name)
    await until_ready(stack)


@pytest.fixture
async def router(stack: Stack) -> AsyncIterator[RouterClient]:
    async with RouterClient(stack.router) as client:
        yield client


@pytest.fixture
def workers(stack: Stack) -> list[str]:
    return stack.workers


@pytest.fixture
def worker_url(stack: Stack) -> str:
    return stack.workers[0]
