"""What must be true of a Redis before the router keeps sessions in it."""

from __future__ import annotations

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from agentserve.core.errors import StorageFailed

SCHEMA = "2"
"""Of the keys in redis.py and lua/. Another one is refused: nothing is rewritten in place."""
OLDEST = (7, 0)
"""The first version with script flags."""


async def check_version(client: Redis) -> None:
    """Raises StorageFailed for a server that is too old."""
    version = (await client.info("server"))["redis_version"]
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        raise StorageFailed(
            f"the store runs Redis {version}, which is too old",
            hint=f"it must be {OLDEST[0]}.{OLDEST[1]} or newer",
        )


async def check_schema(client: Redis, key: str) -> None:
    """Mark an empty database as ours. Raises StorageFailed when it has another schema."""
    stored = await client.get(key)
    if stored is None:
        # another router may be faster: then this is the value that it has written
        stored = await client.set(key, SCHEMA, nx=True, get=True)
    if stored not in (None, SCHEMA):
        raise StorageFailed(
            f"the sessions in Redis have schema {stored}, this agentserve knows {SCHEMA}: "
            "another version has written them",
            hint="run the agentserve that wrote them, or name another database in --store",
        )


async def loss_warnings(client: Redis) -> list[str]:
    """Why what the router acknowledges can be lost, and the setting that mends it; empty when a
    restart of Redis, or of its machine, loses nothing."""
    warnings = []
    persistence = await client.info("persistence")
    if not persistence.get("aof_enabled"):
        warnings.append("a restart of Redis loses sessions: set appendonly yes")
    else:
        try:
            setting = await client.config_get("appendfsync")
        except ResponseError:  # forbidden, or renamed away
            setting = {}
        fsync = setting.get("appendfsync")
        if fsync is None:
            warnings.append(
                "whether a crash loses sessions could not be told, CONFIG is forbidden: "
                "appendfsync should be always"
            )
        elif fsync != "always":
            warnings.append(
                f"a crash of its machine loses the last sessions (appendfsync is {fsync}): "
                "set appendfsync always"
            )
    policy = (await client.info("memory")).get("maxmemory_policy", "")
    if policy.startswith("allkeys"):
        warnings.append(
            f"with its memory full, Redis drops sessions (maxmemory-policy is {policy}): "
            "set maxmemory-policy noeviction"
        )
    return warnings
