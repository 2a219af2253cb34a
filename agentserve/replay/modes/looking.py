"""Looking at a live page until it shows what was recorded, or for as long as it may be late."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from agentserve.core.runs import RecordedComputer
from agentserve.replay.bundle.format import StepLine
from agentserve.replay.bundle.reader import Recording
from agentserve.replay.compare.difference import Difference
from agentserve.replay.modes.places import Places
from agentserve.replay.redaction.snapshots import quoted_placeholders

AGAIN_S = 0.25
"""Between two looks at a page that does not agree yet."""

CompareScreens = Callable[[StepLine, bytes, bytes], list[Difference]]
"""The recorded and the live screen of a step. Blocking."""
CompareAria = Callable[[StepLine, str, str], list[Difference]]
"""The recorded and the live aria snapshot of a step. Blocking."""


@dataclass(frozen=True)
class Look:
    """What a page showed, against what it showed in the recording."""

    picture: bytes
    differences: list[Difference]
    aria: bytes | None = None
    """The page's aria snapshot, where the recording has one to compare it with."""

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.picture).hexdigest()


class Looker:
    """Compares the page in front with steps of one recording."""

    def __init__(
        self,
        computer: RecordedComputer,
        recording: Recording,
        places: Places,
        compare_screens: CompareScreens,
        compare_aria: CompareAria | None,
        late_s: float,
        hidden: Callable[[str], str],
    ) -> None:
        """``hidden`` gives a text of the page without the values of secrets."""
        self._computer = computer
        self._recording = recording
        self._places = places
        self._compare_screens = compare_screens
        self._compare_aria = compare_aria
        self._late_s = late_s
        self._hidden = hidden

    async def look(self, step: StepLine) -> Look:
        """Look until nothing differs, for at most ``late_s``: a page that is slower than it was in
        the recording is not another page. Raises BrowserFailed, and RecordingError for a damaged
        entry."""
        deadline = asyncio.get_running_loop().time() + self._late_s
        while True:
            look = await self._once(step)
            if not look.differences or asyncio.get_running_loop().time() >= deadline:
                return look
            await asyncio.sleep(AGAIN_S)

    async def _once(self, step: StepLine) -> Look:
        if step.pointer is not None:
            await self._computer.put_pointer(step.pointer)
        picture = await self._computer.screenshot()
        differences: list[Difference] = []
        aria: bytes | None = None
        if step.screenshot is not None:
            recorded = await asyncio.to_thread(self._recording.screenshot, step.screenshot)
            differences += await asyncio.to_thread(self._compare_screens, step, recorded, picture)
        if step.aria is not None and self._compare_aria is not None:
            snapshot = await asyncio.to_thread(self._recording.aria, step.aria)
            now = quoted_placeholders(self._hidden(await self._computer.aria()))
            differences += await asyncio.to_thread(self._compare_aria, step, snapshot, now)
            aria = now.encode()
        url = self._hidden(self._computer.url)
        if not self._places.same(step.url, url):
            differences.append(
                Difference(
                    comparer="outcome",
                    field="url",
                    recorded=self._places.now(step.url),
                    replayed=url[:2000],
                    message="another page is in front",
                )
            )
        return Look(picture, differences, aria)
