"""A scripted worker as a process: ``python -m agentserve.bench.router.probed PORT``.

It answers with its own name, notes what it got to the byte, and takes its script over HTTP.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
import sys
from typing import Any, get_args

from pydantic import Field
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentserve.core.model import Wire
from agentserve.core.workers import WorkerReport
from agentserve.testing.worker import FakeWorker, Fault

SCRIPT = "/probe/script"
SEEN = "/probe/seen"


class Script(Wire):
    """What the worker is to do from now on; what it has seen is forgotten."""

    faults: list[str] = Field(default_factory=list, examples=[list(get_args(Fault))])
    delay_s: float = 0.0
    pace_s: float = 0.0


class Seen(Wire):
    """The last request for an answer since the script, as it came."""

    headers: list[tuple[str, str]]
    body: str
    """In base64."""


def name_of(port: int) -> str:
    """What the worker answers."""
    return f"worker {port}"


class ProbedWorker(FakeWorker):
    def __init__(self, port: int) -> None:
        self._last: Seen | None = None
        self._life = secrets.token_hex(8)
        super().__init__([name_of(port)], port=port)

    def report(self) -> WorkerReport:
        return super().report().model_copy(update={"boot_id": self._life})

    def _app(self) -> Starlette:
        app = super()._app()
        app.routes.extend(
            [Route(SCRIPT, self._script, methods=["PUT"]), Route(SEEN, self._seen)],
        )
        return app

    async def _script(self, request: Request) -> Response:
        script = Script.model_validate_json(await request.body())
        self.faults.clear()
        self.faults.extend(script.faults)
        self.delay_s, self.pace_s = script.delay_s, script.pace_s
        self._last = None
        return Response()

    async def _seen(self, request: Request) -> Response:
        if self._last is None:
            return Response(status_code=404)
        return Response(self._last.model_dump_json(), media_type="application/json")

    async def _fault(self, request: Request, body: dict[str, Any]) -> Response | None:
        headers = [(name.decode(), value.decode("latin-1")) for name, value in request.headers.raw]
        raw = base64.b64encode(await request.body()).decode()
        self._last = Seen(headers=headers, body=raw)
        return await super()._fault(request, body)


async def _serve(port: int) -> None:
    async with ProbedWorker(port):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
