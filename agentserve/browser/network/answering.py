"""Pages that get their answers from a recording."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Literal

from playwright.async_api import BrowserContext, Request, Route, WebSocketRoute

from agentserve.browser.network.har import MAX_REDIRECTS, Answer, Har, Question, question_of
from agentserve.core.runs import NetworkNote

OnMiss = Literal["fail", "live"]
Hidden = Callable[[str], str]
MAX_NOTES = 200


class Answering:
    """Answers a context's requests from a HAR file. What was not recorded fails, or is fetched live
    (``on_miss``); both are noted. With ``fail`` nothing reaches the network.

    What was recorded at ``recorded_url``'s origin answers at that of the context's start page.
    ``hidden`` gives a text as it was recorded, without the values of secrets.
    """

    def __init__(
        self,
        har: Har,
        on_miss: OnMiss = "fail",
        *,
        recorded_url: str = "",
        hidden: Hidden = str,
    ) -> None:
        self._har = har
        self._hidden = hidden
        self._on_miss = on_miss
        self._recorded_url = recorded_url
        self._notes: list[NetworkNote] = []

    async def attach(self, context: BrowserContext, start_url: str) -> None:
        self._har.moved(self._recorded_url, start_url)
        await context.route("**/*", self._on_request)
        if self._on_miss == "fail":
            # a socket's messages are in no HAR file
            await context.route_web_socket("**/*", self._on_socket)

    async def take_notes(self, wait_s: float = 0.0) -> list[NetworkNote]:
        # nothing is open: an answer that was recorded is there at once
        notes, self._notes = self._notes, []
        return notes

    async def _on_request(self, route: Route) -> None:
        request = route.request
        if not request.url.startswith(("http://", "https://")):
            await route.fallback()
            return
        question = asked_by(request, self._hidden)
        answer = self._har.answer(question)
        if answer is None:
            await self._missed(route, question)
        elif answer.failure:
            await route.abort("failed")
        elif (redirect := answer.redirect(question)) is None:
            await _give(route, answer)
        elif request.is_navigation_request():
            await _go_on(route, redirect)
        else:
            await self._follow(route, redirect)

    async def _follow(self, route: Route, question: Question) -> None:
        """Answer a page's own request with what its redirects lead to: a redirect that was given to
        the browser would be followed on the network."""
        for _ in range(MAX_REDIRECTS):
            answer = self._har.answer(question)
            if answer is None:
                await self._missed(route, question)
                return
            redirect = answer.redirect(question)
            if redirect is None:
                await (route.abort("failed") if answer.failure else _give(route, answer))
                return
            question = redirect
        await route.abort("failed")

    async def _missed(self, route: Route, question: Question) -> None:
        self._note(str(question))
        await (route.abort("failed") if self._on_miss == "fail" else route.fallback())

    async def _on_socket(self, socket: WebSocketRoute) -> None:
        self._note(f"WebSocket {self._hidden(socket.url)[:500]}")
        await socket.close()

    def _note(self, request: str) -> None:
        if len(self._notes) < MAX_NOTES:
            then = "failed" if self._on_miss == "fail" else "fetched live"
            self._notes.append(NetworkNote(what="missing", request=request, replayed=then))


def asked_by(request: Request, hidden: Hidden = str) -> Question:
    """The question without the values of secrets: so it was recorded."""
    content_type = request.headers.get("content-type", "")
    body = hidden((request.post_data_buffer or b"").decode("utf-8", "replace"))
    return question_of(request.method, hidden(request.url), body, content_type)


async def _give(route: Route, answer: Answer) -> None:
    await route.fulfill(status=answer.status, headers=dict(answer.headers), body=answer.body)


async def _go_on(route: Route, question: Question) -> None:
    """Bring a navigation to where it was redirected, by a page that leaves no trace in the history.
    A redirect that is not to a GET cannot be told from one here: navigations rarely are."""
    address = json.dumps(question.url).replace("<", "\\u003c")
    page = f"<!doctype html><script>location.replace({address})</script>"
    await route.fulfill(status=200, content_type="text/html; charset=utf-8", body=page)
