"""A small web application whose answers change, for tests of what is fetched."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

PAGE = """<!doctype html><meta charset="utf-8"><title>App</title>
<body>
<p id="out"></p>
<a id="away" href="/old">old address</a>
<form method="post" action="/save">
  <input name="name" value="Ada"><button id="send">Send</button></form>
<script>
  window.said = [];
  window.ask = async (path, options) => {
    try {
      const answer = await fetch(path, options);
      said.push(`${answer.status} ${await answer.text()}`);
    } catch (error) { said.push('no answer'); }
    document.getElementById('out').textContent = said.join('; ');
    return said.at(-1);
  };
  window.post = (path, value, type = 'application/json') =>
    ask(path, {method: 'POST', body: value, headers: {'content-type': type}});
</script>"""


def make_app(greeting: str = "hello", delay_s: float = 0.0) -> Starlette:
    """``delay_s``: how long an answer of /slow takes."""
    counted = {"count": 0, "hits": 0}

    def page(request: Request) -> Response:
        counted["hits"] += 1
        return HTMLResponse(PAGE)

    def count(request: Request) -> Response:
        counted["hits"] += 1
        counted["count"] += 1
        return JSONResponse({"count": counted["count"]})

    async def echo(request: Request) -> Response:
        counted["hits"] += 1
        return Response(await request.body(), media_type="text/plain")

    def greet(request: Request) -> Response:
        counted["hits"] += 1
        answer = JSONResponse({"says": greeting, "to": "you"})
        answer.set_cookie("session", "geheim-123")
        return answer

    async def slow(request: Request) -> Response:
        await asyncio.sleep(delay_s)
        return JSONResponse({"says": greeting})

    def stream(request: Request) -> Response:
        async def events() -> AsyncIterator[str]:
            yield "data: 1\n\n"
            await asyncio.sleep(30)

        return StreamingResponse(events(), media_type="text/event-stream")

    def old(request: Request) -> Response:
        counted["hits"] += 1
        return RedirectResponse("/new", 302)

    def new(request: Request) -> Response:
        counted["hits"] += 1
        return HTMLResponse("<!doctype html><title>New</title><h1>the new page</h1>")

    def broken(request: Request) -> Response:
        # more was promised than is sent: the browser gets no whole answer
        counted["hits"] += 1
        return Response(b"half", headers={"content-length": "4", "content-encoding": "gzip"})

    app = Starlette(
        routes=[
            Route("/", page),
            Route("/count", count),
            Route("/echo", echo, methods=["POST"]),
            Route("/greet", greet),
            Route("/slow", slow),
            Route("/stream", stream),
            Route("/old", old),
            Route("/new", new),
            Route("/save", lambda request: RedirectResponse("/new", 303), methods=["POST"]),
            Route("/broken", broken),
        ]
    )
    app.state.counted = counted
    return app
