"""Serves local pages to the browser, read-only, on a free port of 127.0.0.1."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from agentserve.core.errors import BrowserFailed, InvalidRequest

_POLL_S = 0.01
_SHUTDOWN_S = 1


class Overlay(StaticFiles):
    """Files of several folders under one root; the first folder that has a file gives it.

    StaticFiles answers GET and HEAD only, lists no folder and follows no path out of its folders.
    """

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self._folders = folders
        super().__init__(directory=folders[0])

    def get_directories(self, directory: object = None, packages: object = None) -> list[Path]:
        return list(self._folders)


class _Server(uvicorn.Server):
    """Leaves the process's signal handlers alone: they are the run's."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serve_pages(*folders: Path) -> AsyncIterator[str]:
    """Serve the folders until the block is left; yields ``http://127.0.0.1:PORT``.

    Raises InvalidRequest for a folder that does not exist.
    """
    for folder in folders:
        if not folder.is_dir():
            raise InvalidRequest(
                f"there are no pages in {folder}",
                hint="`make setup` installs the pages of the scenarios",
            )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        app = Starlette(routes=[Mount("/", Overlay(folders))])
        server = _Server(
            uvicorn.Config(
                app,
                log_level="warning",
                access_log=False,
                lifespan="off",
                ws="none",
                timeout_graceful_shutdown=_SHUTDOWN_S,
            )
        )
        serving = asyncio.ensure_future(server.serve(sockets=[listener]))
        try:
            while not server.started:
                if serving.done():
                    raise BrowserFailed("the page server did not start")
                await asyncio.sleep(_POLL_S)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await asyncio.shield(serving)
