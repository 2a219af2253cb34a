"""How late the event loop is: what blocks it delays every request."""

from __future__ import annotations

import asyncio

from prometheus_client import Histogram

LOOK_EVERY_S = 0.5


async def watch_lag(lag: Histogram) -> None:
    """Until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + LOOK_EVERY_S
        await asyncio.sleep(LOOK_EVERY_S)
        lag.observe(max(0.0, loop.time() - due))
