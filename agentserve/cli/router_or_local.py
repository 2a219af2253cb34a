"""Commands that need a router use a running one, or start a whole stack for themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from agentserve.cli.stack import StackOptions, Status, local_stack
from agentserve.client import RouterClient
from agentserve.core.config import api_key, otlp_endpoint, router_url
from agentserve.core.errors import InvalidRequest
from agentserve.core.tracing import can_export, exporting


def check_router(url: str | None, *, local: bool) -> None:
    """Raises InvalidRequest when both a router and one's own are asked for."""
    if url is not None and local:
        raise InvalidRequest(
            "--local starts a router of its own and does not go with --router",
            hint="leave out one of the two",
        )


@asynccontextmanager
async def router_or_local(
    url: str | None,
    *,
    local: bool,
    programs: tuple[Path, ...] = (),
    patches: bool = False,
    status: Status,
) -> AsyncIterator[RouterClient]:
    """A client of the router at ``url`` (or AGENTSERVE_ROUTER, or this machine's); with ``local``
    of one that lives as long as the block, over one worker. Where OpenTelemetry's variables say
    where to, the client exports its traces."""
    async with AsyncExitStack() as stack:
        stack.enter_context(exporting("agentserve-client", otlp_endpoint() and can_export()))
        if local:
            options = StackOptions(workers=1, programs=programs)
            started = await stack.enter_async_context(local_stack(options, status))
            client = RouterClient(started.router, patches=patches)
        else:
            client = RouterClient(url or router_url(), api_key=api_key(), patches=patches)
        yield await stack.enter_async_context(client)
