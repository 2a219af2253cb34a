from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from agentserve.testing.worker import FakeWorker

from .rig import Rig, running_rig


@pytest.fixture(scope="session")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    """One router with two workers, shared by the tests that break nothing."""
    async with running_rig(tmp_path_factory.mktemp("router")) as running:
        yield running


@pytest.fixture(scope="session")
async def small_context(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    """A router with one worker whose context is short."""
    async with (
        FakeWorker(context_length=4096) as worker,
        running_rig(tmp_path_factory.mktemp("small"), [worker]) as running,
    ):
        yield running
