"""The Lua scripts of the Redis store. Each is one transaction, sent by its hash."""

from __future__ import annotations

from pathlib import Path

from redis.asyncio import Redis

ROOT = "{agentserve}"
"""What every key begins with. The hash tag puts all of them into one slot of a Redis Cluster, so
that one script can write them: a deployment's sessions are on one primary."""
_FOLDER = Path(__file__).parent / "lua"
_SHARED = "common"


class Scripts:
    """Calls the scripts by the names of their files, which say what they take and answer."""

    def __init__(self, client: Redis) -> None:
        names = [path.stem for path in _FOLDER.glob("*.lua") if path.stem != _SHARED]
        self._scripts = {name: client.register_script(_text(name)) for name in names}

    async def run(self, name: str, *args: str | int | float) -> object:
        return await self._scripts[name](keys=[ROOT], args=args)


def _text(name: str) -> str:
    """A script with the shared part behind its first line, which names its flags."""
    flags, _, body = (_FOLDER / f"{name}.lua").read_text().partition("\n")
    shared = (_FOLDER / f"{_SHARED}.lua").read_text()
    return f"{flags}\n{shared}{body}"
