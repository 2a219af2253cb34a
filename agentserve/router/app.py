"""The FastAPI application of the router."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from agentserve import __version__
from agentserve.core.config import RouterConfig
from agentserve.core.sessions import TurnRequest
from agentserve.router.api import ROUTERS, passthrough
from agentserve.router.api.passthrough import Express
from agentserve.router.errors import Requests, add_error_handlers
from agentserve.router.hosts import HostCommand, program_host
from agentserve.router.identity import OPEN_PATHS, SCHEMES, Identity
from agentserve.router.limits import BodyLimit
from agentserve.router.metrics import Metrics
from agentserve.router.services import running_services
from agentserve.router.tracing import Traces

DESCRIPTION = """\
Sessions of screenshot agents on SGLang workers. A session is created, gets one screenshot a turn
and answers one action each, and is released. Every error has one JSON shape: `code`, `message`,
`hint`, `details`, `session_id`, `request_id`.
"""

_NO_TELEMETRY = dict.fromkeys(("tracing", "metrics", "logs", "auto_configure"), False)
"""FastAPI's own spans hold queries, in which keys may be; ours are in router.tracing."""


def create_app(config: RouterConfig, *, host_command: HostCommand = program_host) -> FastAPI:
    """The router. Its lifespan starts the store, the health checks and the program hosts.

    ``host_command`` builds a program host's command line; tests start a scripted one.
    """
    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with running_services(config, host_command, metrics) as services:
            app.state.services = services
            yield

    app = _App(
        title="agentserve",
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        redirect_slashes=False,
        telemetry=_NO_TELEMETRY,
    )
    app.needs_key = config.auth == "keys"
    add_error_handlers(app)
    app.add_middleware(BodyLimit, max_bytes=config.max_body_bytes)
    app.add_middleware(Identity, needed=config.auth == "keys")
    app.add_middleware(Requests, metrics=metrics)
    app.add_middleware(Traces)  # added last: the outermost
    app.router.routes.insert(0, Express(passthrough.router))
    for router in ROUTERS:
        app.include_router(router)
    return app


class _App(FastAPI):
    needs_key = False

    def openapi(self) -> dict[str, Any]:
        """The document, with the model of the one body that a route reads by itself, and how keys
        are sent."""
        if self.openapi_schema is None:
            self.openapi_schema = get_openapi(
                title=self.title,
                version=self.version,
                description=self.description,
                routes=self.routes,
            )
            turn = TurnRequest.model_json_schema(ref_template="#/components/schemas/{model}")
            models = self.openapi_schema["components"]["schemas"]
            models.update(turn.pop("$defs"))
            models["TurnRequest"] = turn
            self.openapi_schema["components"]["securitySchemes"] = SCHEMES
            if self.needs_key:
                self.openapi_schema["security"] = [{name: []} for name in SCHEMES]
                for path in OPEN_PATHS & self.openapi_schema["paths"].keys():
                    for operation in self.openapi_schema["paths"][path].values():
                        operation["security"] = []
        return self.openapi_schema
