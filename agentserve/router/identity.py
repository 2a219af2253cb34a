"""Who makes a request: the API key in its headers, looked up in the store.

A key is asked of before anything of a request is read but its headers. It comes as ``Authorization:
Bearer KEY``, or as ``X-Api-Key: KEY`` where Authorization is the worker's.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from datetime import UTC, datetime

from starlette.types import ASGIApp, Receive, Scope, Send

from agentserve.core.errors import AgentServeError, Unauthorized
from agentserve.core.logs import tell
from agentserve.core.tenants import ApiKey, Caller, KeyLimits, key_id_of
from agentserve.router.errors import error_response
from agentserve.router.store import Store

FRESH_S = 2.0
"""How long a key that was read is taken as it was: one that is revoked works so much longer."""
REMEMBERED = 4096
PASSED_OVER = 64 * 1024
"""Longest body, in bytes, that is read of somebody without a key."""
KEY_HEADER = b"x-api-key"
SCHEMES = {
    "key": {"type": "http", "scheme": "bearer"},
    "key beside the worker's": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
}
"""As OpenAPI has it."""
_NO_LIMITS = KeyLimits()
OPEN_PATHS = frozenset(("/health", "/ready", "/metrics", "/docs", "/redoc", "/openapi.json"))
"""What needs no key: probes, scrapers, and the API's description."""
_HINT = "send it as `Authorization: Bearer KEY`; an operator makes one by `agentserve keys create`"


class Keys:
    """Reads keys, and remembers them for a moment."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._limits: OrderedDict[str, KeyLimits] = OrderedDict()
        self._read: OrderedDict[str, tuple[float, ApiKey | None]] = OrderedDict()

    async def caller(self, text: str) -> Caller:
        """Whose key this is. Raises Unauthorized, StorageFailed."""
        key_id = key_id_of(text)
        key = None if key_id is None else await self._key(key_id)
        if key is None or not key.opens(text, datetime.now(UTC)):
            raise Unauthorized("the API key is unknown, or has expired", hint=_HINT)
        self._limits[key.tenant] = key.limits
        self._limits.move_to_end(key.tenant)
        if len(self._limits) > REMEMBERED:
            self._limits.popitem(last=False)
        return Caller(key.tenant, key.role, key.id)

    def limits_of(self, tenant: str) -> KeyLimits:
        """Those of the key that the tenant has used last."""
        return self._limits.get(tenant, _NO_LIMITS)

    async def _key(self, key_id: str) -> ApiKey | None:
        now = time.monotonic()
        known = self._read.get(key_id)
        if known is None or now - known[0] > FRESH_S:
            known = (now, await self._store.key(key_id))
            self._read[key_id] = known
        self._read.move_to_end(key_id)
        if len(self._read) > REMEMBERED:
            self._read.popitem(last=False)
        return known[1]


class Identity:
    """ASGI middleware: puts the Caller into the request's state, or answers 401."""

    def __init__(self, app: ASGIApp, needed: bool) -> None:
        """``needed``: False for a router without keys, where everybody is one tenant."""
        self._app = app
        self._needed = needed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        caller = Caller()
        if self._needed and scope["path"] not in OPEN_PATHS:
            keys: Keys = scope["app"].state.services.keys
            try:
                caller = await keys.caller(_key_in(scope["headers"]))
            except AgentServeError as error:
                response = error_response(error, scope)
                if isinstance(error, Unauthorized):
                    response.headers["www-authenticate"] = "Bearer"
                if not await _passed_over(scope, receive):
                    # the connection cannot be used again
                    response.headers["connection"] = "close"
                await response(scope, receive, send)
                return
        if caller.key_id:
            tell(tenant=caller.tenant, key=caller.key_id)
        scope["state"]["caller"] = caller
        scope["state"]["tenant"] = caller.tenant
        await self._app(scope, receive, send)


async def _passed_over(scope: Scope, receive: Receive) -> bool:
    """Whether the request's body, unless it is long, has been read and forgotten: a connection that
    is closed with some of it unread is reset, and its client may not see the answer."""
    headers = dict(scope["headers"])
    length = headers.get(b"content-length", b"0")
    if b"transfer-encoding" in headers or not length.isdigit() or int(length) > PASSED_OVER:
        return False
    while (message := await receive())["type"] == "http.request" and message.get("more_body"):
        pass
    return True


def without_key(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers that a worker may see of a request that came with a key."""
    own = any(name.lower() == KEY_HEADER for name, _ in headers)
    ours = KEY_HEADER if own else b"authorization"
    return [(name, value) for name, value in headers if name.lower() != ours]


def _key_in(headers: list[tuple[bytes, bytes]]) -> str:
    """The key's text. Raises Unauthorized."""
    found = dict(headers)
    if (own := found.get(KEY_HEADER)) is not None:
        return own.decode("latin-1").strip()
    kind, _, text = found.get(b"authorization", b"").decode("latin-1").partition(" ")
    if kind.lower() != "bearer" or not text:
        raise Unauthorized("an API key is needed", hint=_HINT)
    return text.strip()
