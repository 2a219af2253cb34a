"""Pages on the live network, whose answers are compared with a recording's."""

from __future__ import annotations

import asyncio
import hashlib
import os
from typing import Any, Literal

from playwright.async_api import BrowserContext, Request
from playwright.async_api import Error as PlaywrightError

from agentserve.browser.network.answering import MAX_NOTES, Hidden, asked_by
from agentserve.browser.network.har import Answer, Har, meaning
from agentserve.core.runs import NetworkNote

_ABORTED = "ERR_ABORTED"
"""A page went on before an answer was there: a matter of time alone."""
_SHOWN = 100
"""Characters of a body."""
_BEFORE = 30
"""Of these, before the first that is another one."""
_READ = 1_000_000
"""Characters of bodies in which that is looked for."""
_WITHOUT_END = {"eventsource", "ping", "websocket"}
"""Streams, and what a page sends without waiting for an answer."""
_POLL_S = 0.05


class Watching:
    """Notes answers that are not the recorded ones: their status or what their body says. A request
    that was not recorded is noted, too; one that is not made any more is not.

    What was recorded at ``recorded_url``'s origin is expected at that of the context's start page.
    ``hidden`` gives a text as it was recorded, without the values of secrets.
    """

    def __init__(self, har: Har, *, recorded_url: str = "", hidden: Hidden = str) -> None:
        self._har = har
        self._recorded_url = recorded_url
        self._hidden = hidden
        self._notes: list[NetworkNote] = []
        self._recorded: dict[Request, Answer | None] = {}
        self._answered: set[Request] = set()
        """Of the open requests those whose answer has begun."""
        self._judging: set[asyncio.Task[None]] = set()

    async def attach(self, context: BrowserContext, start_url: str) -> None:
        self._har.moved(self._recorded_url, start_url)
        context.on("request", self._begun)
        context.on("response", lambda response: self._answered.add(response.request))
        context.on("requestfinished", self._ended)
        context.on("requestfailed", self._ended)

    async def take_notes(self, wait_s: float = 0.0) -> list[NetworkNote]:
        # polled: that a page is gone, and its requests with it, is told by nothing
        for _ in range(round(wait_s / _POLL_S)):
            if not any(map(self._waits, self._open())):
                break
            await asyncio.sleep(_POLL_S)
        for request in self._open() if wait_s else ():
            if request not in self._answered and self._waits(request):
                recorded = self._recorded.pop(request)
                name = str(asked_by(request, self._hidden))
                was = recorded and _told(recorded)
                what: Literal["answer", "missing"] = "answer" if recorded else "missing"
                replayed = f"no answer within {wait_s:g} s"
                self._note(NetworkNote(what=what, request=name, recorded=was, replayed=replayed))
        while self._judging:
            await asyncio.wait(self._judging)
        notes, self._notes = self._notes, []
        return notes

    def _open(self) -> list[Request]:
        return list(self._recorded)

    def _waits(self, request: Request) -> bool:
        """Whether a page waits for its end: there is still a page, it was answered in the recording
        if it was recorded at all, and it is no stream, which has none."""
        recorded = self._recorded.get(request)
        if recorded is not None and (
            recorded.failure or recorded.content_type.startswith("text/event-stream")
        ):
            return False
        return request.resource_type not in _WITHOUT_END and not _page_is_gone(request)

    def _begun(self, request: Request) -> None:
        """Requests are in a HAR file in the order in which they begin."""
        if request.url.startswith(("http://", "https://")):
            self._recorded[request] = self._har.answer(asked_by(request, self._hidden))

    def _ended(self, request: Request) -> None:
        self._answered.discard(request)
        if request in self._recorded:
            task = asyncio.ensure_future(self._judge(request, self._recorded.pop(request)))
            self._judging.add(task)
            task.add_done_callback(self._judging.discard)

    async def _judge(self, request: Request, recorded: Answer | None) -> None:
        name = str(asked_by(request, self._hidden))
        if recorded is None:
            self._note(NetworkNote(what="missing", request=name, replayed="fetched live"))
            return
        if _ABORTED in recorded.failure or _ABORTED in (request.failure or ""):
            return
        live = await _live(request, self._hidden)
        if live is not None and _told(recorded, live) != _told(live, recorded):
            was, now = _told(recorded, live), _told(live, recorded)
            self._note(NetworkNote(what="answer", request=name, recorded=was, replayed=now))

    def _note(self, note: NetworkNote) -> None:
        if len(self._notes) < MAX_NOTES:
            self._notes.append(note)


def _page_is_gone(request: Request) -> bool:
    try:
        return request.frame.is_detached() or request.frame.page.is_closed()
    except PlaywrightError:
        return False  # the frame is not there before its first document, a worker has none


async def _live(request: Request, hidden: Hidden) -> Answer | None:
    """None when the browser has forgotten it: its page is gone."""
    if request.failure:
        return Answer(0, failure=request.failure)
    try:
        response: Any = await request.response()
        if response is None:
            return None
        headers = await response.all_headers()
        redirected = 300 <= response.status < 400
        body = b"" if redirected else await response.body()
    except PlaywrightError:
        return None
    said = hidden(body.decode("utf-8", "surrogateescape"))
    return Answer(response.status, headers, said.encode("utf-8", "surrogateescape"))


def _told(answer: Answer, other: Answer | None = None) -> str:
    """An answer in few words, which are not those of the ``other`` when that says something else:
    of a body that people can read, where it begins to."""
    if answer.failure:
        return "failed"
    if 300 <= answer.status < 400:
        return str(answer.status)
    said = _said(answer)
    others = said if other is None else _said(other)
    digest = hashlib.sha256(said.encode("utf-8", "surrogateescape")).hexdigest()
    told = f"{answer.status}, sha256 {digest[:16]}"
    if not answer.content_type.startswith(("text/", "application/json")):
        return told
    at = 0 if said == others else len(os.path.commonprefix([said[:_READ], others[:_READ]]))
    begin = max(0, at - _BEFORE) if at > _SHOWN - _BEFORE else 0
    line = " ".join(said[begin : begin + 4 * _SHOWN].split()).encode("utf-8", "replace").decode()
    return f"{told}: {'…' if begin else ''}{line[:_SHOWN]}"


def _said(answer: Answer) -> str:
    return meaning(answer.body.decode("utf-8", "surrogateescape"), answer.content_type)
