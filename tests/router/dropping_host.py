"""A scripted host behind a gate that breaks the first connection that brings a turn.

    python -m tests.router.dropping_host (the host's own arguments)

The host lives on: a connection breaks for many reasons, being idle among them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from pathlib import Path

import uvicorn

from agentserve.testing.host import ScriptedHost

CHUNK = 1 << 16


async def serve(socket: Path, blobs: Path) -> None:
    inner = socket.with_suffix(".inner")
    dropped = False

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_unix_connection(str(inner))
        await asyncio.gather(copy(reader, forth, writer), copy(back, writer, forth))

    async def copy(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, other: asyncio.StreamWriter
    ) -> None:
        nonlocal dropped
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(CHUNK):
                if data.startswith(b"POST /turns") and not dropped:
                    dropped = True
                    other.close()
                    break
                writer.write(data)
        writer.close()

    settings = uvicorn.Config(ScriptedHost(blobs).app, uds=str(inner), log_config=None)
    async with await asyncio.start_unix_server(connected, str(socket)):
        await uvicorn.Server(settings).serve()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--blobs", type=Path, required=True)
    parser.add_argument("--threads")
    parser.add_argument("--programs", nargs="*")
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--log-format")
    parser.add_argument("--log-level")
    arguments = parser.parse_args()
    asyncio.run(serve(arguments.socket, arguments.blobs))
