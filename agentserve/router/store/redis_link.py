"""The connection to Redis: the URL, bounded waits, and Redis's errors in the router's terms.

The only place that sees redis-py's errors. A call is asked again while the connection fails, up to
a few seconds: every script answers a repeated write as it answered the first one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

from redis import exceptions
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff

from agentserve.core.errors import InvalidRequest, StorageFailed

CALL_TIMEOUT_S = 10.0
"""Longest wait for one call, with all its attempts."""
ATTEMPT_TIMEOUT_S = 3.0
RETRIES = 3
CONNECTIONS = 64
"""Most connections of a router; further calls wait for a free one."""
RETRY_AFTER_S = 5.0

_OPTIONS = {
    "redis": set(),
    "rediss": {
        "ssl_ca_certs", "ssl_cert_reqs", "ssl_certfile", "ssl_check_hostname", "ssl_keyfile",
    },
    "unix": {"db", "password"},
}  # fmt: skip
"""What may stand behind the ? of a URL."""
_FORMS = "write it as redis://[USER:PASSWORD@]HOST[:PORT][/DB], rediss://… or unix:///PATH[?db=DB]"

# The first that fits counts: of a class and its subclass, the subclass comes first.
_REFUSALS: tuple[tuple[type[exceptions.RedisError], str, str], ...] = (
    (exceptions.AuthenticationError, "does not let the router in",
     "correct user and password in --store"),
    (exceptions.NoPermissionError, "does not let the router do this",
     "give its user the rights to scripts, streams, publishing and the keys of agentserve"),
    (exceptions.BusyLoadingError, "is still loading its data", "ask again in a moment"),
    (exceptions.ReadOnlyError, "is a replica and takes no writes",
     "--store must name the primary"),
    (exceptions.OutOfMemoryError, "has used up its memory",
     "its operator must raise maxmemory, or sessions be deleted"),
    (exceptions.MovedError, "is not the node of the cluster that has the router's keys",
     "--store must name the primary that has their slot"),
    (exceptions.MasterDownError, "is a replica that has lost its primary",
     "--store must name the primary"),
    (exceptions.ClusterDownError, "belongs to a cluster that is down", "ask again in a moment"),
)  # fmt: skip
_REFUSED_CODES = {
    "MISCONF": "look at its log: it cannot write to its disk",
    "NOREPLICAS": "its operator must bring back the replicas that min-replicas-to-write asks for",
}
"""Replies for which redis-py has no class of its own."""


class RedisLink:
    """A client of one Redis, through ``reaching``. Opens connections as they are needed, and opens
    them again once they are lost.

    Raises InvalidRequest for a URL of another form. What is in it is never shown but for host,
    port, database and path: ``where``.
    """

    def __init__(self, url: str) -> None:
        self.where = _checked(url)
        try:
            pool = BlockingConnectionPool.from_url(
                url,
                max_connections=CONNECTIONS,
                timeout=None,  # of the wait for a free one: reaching() bounds it
                decode_responses=True,
                protocol=2,  # replies have the same shapes whatever the server's version
                socket_timeout=ATTEMPT_TIMEOUT_S,
                socket_connect_timeout=ATTEMPT_TIMEOUT_S,
                retry=Retry(ExponentialBackoff(cap=0.5, base=0.05), RETRIES),
            )
        except ValueError:
            # "from None": the message may quote what was taken for an option
            raise InvalidRequest("the store's URL cannot be read", hint=_FORMS) from None
        self._client: Redis = Redis.from_pool(pool)

    def __repr__(self) -> str:
        return f"RedisLink({self.where})"

    @property
    def client(self) -> Redis:
        """For what does not talk yet: scripts and subscriptions are made of it."""
        return self._client

    async def close(self) -> None:
        await self._client.aclose()

    @asynccontextmanager
    async def reaching(self) -> AsyncIterator[Redis]:
        """The client, for one call. Raises StorageFailed when Redis cannot be reached in time or
        refuses; of a write whose connection was lost nobody knows then whether it was done."""
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                yield self._client
        except (TimeoutError, exceptions.TimeoutError) as error:
            raise self._failed(
                "does not answer in time", "look whether it hangs or is overloaded"
            ) from error
        except (exceptions.RedisError, OSError) as error:
            if (failure := self._failure(error)) is None:
                raise
            raise failure from error

    def _failure(self, error: Exception) -> StorageFailed | None:
        """What an error means for the router; None for one that only a mistake of ours explains."""
        for kind, what, hint in _REFUSALS:
            if isinstance(error, kind):
                return self._failed(what, hint)
        code = str(error).partition(" ")[0]
        if hint := _REFUSED_CODES.get(code):
            return self._failed(f"refuses ({code})", hint)
        if isinstance(error, (exceptions.ConnectionError, OSError)):
            return self._failed(
                f"cannot be reached: {error}", "start it, or correct --store; then ask again"
            )
        return None

    def _failed(self, what: str, hint: str) -> StorageFailed:
        return StorageFailed(
            f"the Redis store at {self.where} {what}", hint=hint, retry_after=RETRY_AFTER_S
        )


def _checked(url: str) -> str:
    """The place that a URL names, without its secrets. Raises InvalidRequest.

    Strict, since a password with an unescaped / or # shifts its rest into the parts that are shown.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise InvalidRequest("the store's URL cannot be read", hint=_FORMS) from None
    local = parts.scheme == "unix"
    options = parse_qs(parts.query, keep_blank_values=True)
    if (
        parts.scheme not in _OPTIONS
        or parts.fragment
        or (len(parts.path) < 2 if local else not host or not re.fullmatch(r"/?\d*", parts.path))
    ):
        raise InvalidRequest(
            "the store's URL is not one of Redis",
            hint=f"{_FORMS}; write / # ? @ in a password as %2F %23 %3F %40",
        )
    if options.keys() - _OPTIONS[parts.scheme]:
        allowed = ", ".join(sorted(_OPTIONS[parts.scheme])) or "none"
        raise InvalidRequest(
            "the store's URL has an unknown option", hint=f"options of {parts.scheme}://: {allowed}"
        )
    if local:
        return f"{parts.path} ({options.get('db', ['0'])[0]})"
    place = f"[{host}]" if ":" in host else host
    return f"{place}:{port or 6379}/{parts.path.strip('/') or 0}"
