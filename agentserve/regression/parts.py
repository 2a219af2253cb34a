"""What replays need of the world: a router, a browser, workers. Each is started by whoever needs it
first, shared by all that follow, and stopped together with the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Self

from playwright.async_api import Browser

from agentserve.browser.launch import launch_browser
from agentserve.client import RouterClient

StartRouter = Callable[[], AbstractAsyncContextManager[RouterClient]]


class Parts:
    """An async context manager. Not for several event loops."""

    def __init__(self, start_router: StartRouter, *, headed: bool = False) -> None:
        """``start_router`` gives a client of a router that is there, or starts one."""
        self._start_router = start_router
        self._headed = headed
        self._stack = AsyncExitStack()
        self._starting = asyncio.Lock()
        self._router: RouterClient | None = None
        self._browser: Browser | None = None

    async def __aenter__(self) -> Self:
        await self._stack.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    async def router(self) -> RouterClient:
        """Raises what starting it raises."""
        async with self._starting:
            if self._router is None:
                self._router = await self._stack.enter_async_context(self._start_router())
            return self._router

    async def browser(self) -> Browser:
        """Raises BrowserFailed."""
        async with self._starting:
            if self._browser is None or not self._browser.is_connected():
                launched = launch_browser(headed=self._headed)
                self._browser = await self._stack.enter_async_context(launched)
            return self._browser
