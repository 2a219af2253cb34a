"""Recordings of Chrome's DevTools Recorder: what it exports as JSON.

The format is the UserFlow of @puppeteer/replay (github.com/puppeteer/replay, src/Schema.ts). Points
are relative to elements there: steps become acts on elements, and nothing has a screenshot. Every
step keeps Chrome's own in ``origin``, as a list: keys that go down and up become one step of ours.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agentserve.core.actions import Navigate
from agentserve.core.actions.recorded import CloseTab, SwitchTab
from agentserve.core.errors import RecordingError
from agentserve.core.screens import Size
from agentserve.replay.account import shortened
from agentserve.replay.addresses import whole_page
from agentserve.replay.bundle.format import StepLine
from agentserve.replay.importers.chrome_steps import CUSTOM_STEP, STEPS, Flow, Read
from agentserve.replay.importers.fields import Fields
from agentserve.replay.importers.keys import Stroke, chord_at, stroke
from agentserve.replay.importers.losses import MAX_WORDS, task_of, tell_unsupported
from agentserve.replay.importers.playwright_targets import MAX_TABS
from agentserve.replay.importers.sources import read_json_object, read_source, words
from agentserve.replay.importers.taken import MAX_STEPS, Taken

FORMAT = "chrome-recorder"

_PAGE = re.compile(r"(https?|file):")
_DEFAULT_VIEWPORT = Size(width=1280, height=720)
_MAX_STROKES = 10
"""That a chord of our modifiers and one key has."""


def take(path: Path) -> Taken:
    """Read a file that Chrome's Recorder exported. Raises RecordingError."""
    return take_flow(read_json_object(read_source(path), path.name), path.name)


def take_flow(values: dict[str, Any], entry: str) -> Taken:
    """The recording of a UserFlow; ``entry`` names it in errors. Raises RecordingError."""
    fields = Fields(values, entry)
    title, sources = fields.text("title"), fields.list("steps")
    if len(sources) > MAX_STEPS:
        raise RecordingError(f"{entry}: {len(sources)} steps; {MAX_STEPS} is most")
    flow = Flow(timeout_ms=fields.number("timeout", 5000.0))
    reader = _Reader(
        [Fields(step, f"{entry}: step {number}") for number, step in enumerate(sources)], flow
    )
    reader.read()
    about = {name: value for name, value in values.items() if name != "steps"}
    return Taken(
        format=FORMAT,
        viewport=flow.viewport or _DEFAULT_VIEWPORT,
        steps=tuple(reader.steps),
        task=task_of(title, flow.account),
        url=reader.first_url,
        scale=flow.scale,
        data=flow.account.data(about),
        lost=flow.account.sentences(),
    )


class _Reader:
    """Goes through Chrome's steps once."""

    def __init__(self, sources: list[Fields], flow: Flow) -> None:
        self._sources = sources
        self._flow = flow
        self.steps: list[StepLine] = []
        self.first_url = ""
        self._urls = {"main": ""}
        """Of the pages in the tabs, in the order in which the flow first names those."""
        self._tab = "main"
        self._told = False
        """Whether the last step said where its page is then."""

    def read(self) -> None:
        at = 0
        while at < len(self._sources):
            step = self._sources[at]
            self._switch(step)
            kind = step.text("type")
            if kind in ("keyDown", "keyUp"):
                at += self._keys(at)
                continue
            read = STEPS.get(kind)
            if read is None:
                raise RecordingError(
                    f"{step.entry}: {words(kind)} is no step of Chrome's Recorder",
                    hint=f"known: {', '.join(sorted([*STEPS, 'keyDown', 'keyUp']))}",
                )
            self._append(read(self._flow, step), [step])
            at += 1
        if self._told:  # there is no step that shows it
            self.steps.append(StepLine(index=len(self.steps), url=self._urls[self._tab], origin=[]))

    def _append(self, read: Read, sources: list[Fields]) -> None:
        action, target, to_target = read
        tell_unsupported(action, self._flow.account, len(self.steps))
        origin = self._flow.account.origin([source.values for source in sources], len(self.steps))
        self.steps.append(
            StepLine(
                index=len(self.steps),
                # which tab is in front before one is brought there is not told
                url="" if isinstance(action, SwitchTab) else self._urls[self._tab],
                performed=action,
                target=target,
                to_target=to_target,
                origin=origin,
            )
        )
        self._flow.index = len(self.steps)
        if isinstance(action, Navigate):
            self._urls[self._tab] = whole_page(action.url)
            self.first_url = self.first_url or action.url
        elif isinstance(action, CloseTab):
            self._urls[self._tab] = ""
        self._told = False
        for source in sources:
            self._went_to(source)

    def _went_to(self, source: Fields) -> None:
        """Where an asserted navigation, or a step of ours, says that the page is after it."""
        if source.text("type") == "customStep" and source.text("name") == CUSTOM_STEP:
            self._is_at(source.inner("parameters").text("url", ""))
        for event in source.list("assertedEvents", []):
            fields = Fields(event, f"{source.entry}: assertedEvents")
            if fields.text("type") != "navigation":
                raise fields.wrong("type", "'navigation'")
            self._is_at(fields.text("url", ""))
            if fields.text("title", ""):
                self._flow.account.lose(
                    "the title that the page has then is not checked", len(self.steps) - 1
                )

    def _is_at(self, url: str) -> None:
        if url:
            self._told = True
            self._urls[self._tab] = self._flow.account.cut(
                url, MAX_WORDS, "the page's address", len(self.steps)
            )

    def _switch(self, step: Fields) -> None:
        tab = step.text("target", "main")
        if tab == self._tab:
            return
        if opened := tab not in self._urls:
            self._flow.account.lose(
                "tabs are numbered in the order in which the flow first names them"
            )
        if len(self._urls) >= MAX_TABS and opened:
            raise RecordingError(f"{step.entry}: more than {MAX_TABS} tabs")
        index = len(self._urls) if opened else list(self._urls).index(tab)
        self._append(Read(SwitchTab(index=index)), [])
        # Chrome calls all tabs but the first by their pages' addresses
        self._urls[tab] = shortened(tab, MAX_WORDS) if _PAGE.match(tab) else self._urls.get(tab, "")
        self._tab = tab

    def _keys(self, at: int) -> int:
        """Takes the keys from ``at`` on, as one chord or one stroke; returns how many."""
        strokes: list[Stroke] = []
        for source in self._sources[at : at + _MAX_STROKES]:
            kind, tab = source.text("type"), source.text("target", "main")
            if kind not in ("keyDown", "keyUp") or tab != self._tab:
                break
            strokes.append(Stroke(source.text("key"), kind == "keyDown"))
        found = chord_at(strokes, 0)
        if found:
            action, length = found
        else:
            length = 1
            try:
                action = stroke(strokes[0])
            except ValidationError as error:
                raise self._sources[at].wrong("key", "the name of a key") from error
        self._append(Read(action), self._sources[at : at + length])
        return length
