"""A real Chromium, and episodes made up for the pure parts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from playwright.async_api import Browser

from agentserve.browser.launch import launch_browser
from agentserve.core.sessions import ScreenPolicy
from agentserve.nano.evaluate.episodes import Conditions, Episode


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with launch_browser() as running:
        yield running


@pytest.fixture
def conditions() -> Conditions:
    return Conditions(
        model="nano",
        model_sha256="a" * 64,
        program="navigator",
        program_sha256="b" * 64,
        screens=ScreenPolicy(policy="current"),
        max_turns=None,
        versions={"agentserve": "0.1.0"},
    )


@pytest.fixture
def episode() -> Callable[..., Episode]:
    def make(seed: int = 0, success: bool = True, **fields: Any) -> Episode:
        given = {
            "task": "click-test",
            "player": "trained",
            "reward": float(success),
            "end": "task_ended",
            "turns": 1,
            "seconds": 1.0,
        }
        return Episode(seed=seed, success=success, **(given | fields))

    return make
