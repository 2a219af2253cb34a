"""A computer of which some regions are never seen."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from agentserve.core.actions import Action
from agentserve.core.elements import PageBox
from agentserve.core.runs import Computer
from agentserve.core.screens import Size
from agentserve.core.sessions import Outcome
from agentserve.vision.masks import masked


class MaskedComputer:
    """A core.runs.Computer that paints over regions of another one's screenshots, so that the model
    gets what a recording with the same masks holds."""

    def __init__(self, computer: Computer, masks: Sequence[PageBox], viewport: Size) -> None:
        """``masks`` in CSS px of ``viewport``."""
        self._computer = computer
        self._masks = tuple(masks)
        self._viewport = viewport

    @property
    def url(self) -> str:
        return self._computer.url

    async def screenshot(self) -> bytes:
        png = await self._computer.screenshot()
        return await asyncio.to_thread(masked, png, self._masks, self._viewport)

    async def perform(self, action: Action) -> Outcome:
        return await self._computer.perform(action)
