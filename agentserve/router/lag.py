"""How late the event loop is: what blocks it delays every request."""

from __future__ import annotations

import asyncio
import sys

from prometheus_client import Histogram

LOOK_EVERY_S = 0.5
_SWITCH_S = 0.0005


def hand_over_soon() -> None:
    """Let a thread that computes give way to the event loop ten times as soon as Python does by
    itself: each time, that is 5 ms, and a turn meets several such threads."""
    sys.setswitchinterval(_SWITCH_S)


async def watch_lag(lag: Histogram) -> None:
    """Until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + LOOK_EVERY_S
        await asyncio.sleep(LOOK_EVERY_S)
        lag.observe(max(0.0, loop.time() - due))
