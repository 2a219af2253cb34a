"""A line for each request that was answered, or left."""

from __future__ import annotations

import logging

from starlette.types import Scope

from agentserve.core.logs import fields, tell

log = logging.getLogger("agentserve.access")
METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"))
"""Those that are named in logs, metrics and traces; a client may send any word."""
QUIET = ("/health", "/ready", "/metrics")
"""Asked all the time by machines: told when details are wanted only."""


def log_access(
    scope: Scope, method: str, route: str, status: int, seconds: float, num_bytes: int
) -> None:
    """``route`` is the template: paths and queries hold what clients choose. ``num_bytes`` are of
    the answer's body; ``status`` is 0 when nothing was answered."""
    if (session_id := scope.get("path_params", {}).get("session_id")) is not None:
        tell(session_id=session_id)
    log.log(
        logging.DEBUG if route in QUIET else logging.INFO,
        "%s %s %s",
        method,
        route,
        status,
        extra=fields(
            method=method, route=route, status=status, ms=round(seconds * 1000, 1), bytes=num_bytes
        ),
    )
