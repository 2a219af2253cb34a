from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from agentserve.browser.pages import serve_pages
from agentserve.core.errors import InvalidRequest


async def raw_status(base: str, path: str) -> int:
    """The status of a path that HTTP clients would tidy up before sending."""
    host, _, port = base.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode())
    await writer.drain()
    status = int((await reader.readline()).split()[1])
    writer.close()
    await writer.wait_closed()
    return status


async def test_files_of_all_folders_are_served_the_first_folder_winning(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        (folder / "both.txt").write_text(folder.name)
    (second / "only.txt").write_text("second")
    async with serve_pages(first, second) as base, httpx.AsyncClient(base_url=base) as http:
        assert base.startswith("http://127.0.0.1:")
        assert (await http.get("/both.txt")).text == "first"
        assert (await http.get("/only.txt")).text == "second"
        assert (await http.get("/neither.txt")).status_code == 404
        assert (await http.post("/both.txt", content=b"x")).status_code == 405
    assert (first / "both.txt").read_text() == "first"


async def test_nothing_outside_the_folders_is_served(tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "in.html").write_text("in")
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    async with serve_pages(folder) as base:
        assert await raw_status(base, "/in.html") == 200
        for path in ("/", "/../secret.txt", "/%2e%2e/secret.txt", "/..%2fsecret.txt", "/link.txt"):
            assert await raw_status(base, path) == 404, path


async def test_the_port_is_free_again_afterwards(tmp_path: Path) -> None:
    async with serve_pages(tmp_path) as base:
        assert await raw_status(base, "/x") == 404
    with pytest.raises(ConnectionRefusedError):
        await raw_status(base, "/x")


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="nowhere"):
        async with serve_pages(tmp_path / "nowhere"):
            pass
