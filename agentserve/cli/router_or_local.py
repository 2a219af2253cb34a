"""Commands that need a router use a running one, or start a whole stack for themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from agentserve.cli.stack import StackOptions, Status, local_stack
from agentserve.client import RouterClient
from agentserve.core.config import api_key, router_url


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
    of one that lives as long as the block, over one worker."""
    if local:
        async with local_stack(StackOptions(workers=1, programs=programs), status) as stack:
            async with RouterClient(stack.router, patches=patches) as client:
                yield client
        return
    async with RouterClient(url or router_url(), api_key=api_key(), patches=patches) as client:
        yield client
