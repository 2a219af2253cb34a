"""The routes, one file per resource. Thin: they read a request and call a service."""

from agentserve.router.api import (
    blobs,
    events,
    ops,
    passthrough,
    programs,
    sessions,
    turns,
    workers,
)

ROUTERS = tuple(
    module.router
    for module in (sessions, turns, events, blobs, workers, programs, passthrough, ops)
)
