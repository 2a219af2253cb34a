"""No Chromium outlives the run that started it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from agentserve.browser.launch import launch_browser
from agentserve.core.errors import BrowserFailed

PROGRAM = """
import asyncio
import signal
from agentserve.browser.launch import launch_browser

async def main():
    async with launch_browser() as browser:
        await (await browser.new_page()).goto("about:blank")
        print("up", flush=True)
        await asyncio.sleep(600)

# a shell that runs a test in the background has it ignore this one
signal.signal(signal.SIGINT, signal.default_int_handler)
asyncio.run(main())
"""


def descendants(root: int) -> set[int]:
    """Process ids below ``root``, zombies left out."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            except OSError:  # ended meanwhile
                continue
            if state != "Z":
                parents[int(entry.name)] = int(parent)
    found: set[int] = set()
    frontier = {root}
    while frontier:
        frontier = {pid for pid, parent in parents.items() if parent in frontier} - found
        found |= frontier
    return found


def alive(pids: set[int]) -> set[int]:
    return {pid for pid in pids if Path(f"/proc/{pid}").exists() and _state(pid) != "Z"}


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


async def until_gone(pids: set[int]) -> None:
    deadline = time.monotonic() + 20
    while alive(pids) and time.monotonic() < deadline:  # noqa: ASYNC110 (other processes)
        await asyncio.sleep(0.1)
    assert alive(pids) == set()


async def test_a_cancelled_run_leaves_no_process_behind() -> None:
    before = descendants(os.getpid())
    up = asyncio.Event()

    async def run() -> None:
        async with launch_browser() as browser:
            await browser.new_page()
            up.set()
            await asyncio.sleep(600)

    task = asyncio.ensure_future(run())
    await asyncio.wait_for(up.wait(), 60)
    started = descendants(os.getpid()) - before
    assert len(started) >= 3  # the driver, the browser, a page
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until_gone(started)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
async def test_a_killed_run_leaves_no_process_behind(sent: signal.Signals) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROGRAM,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    assert await asyncio.wait_for(process.stdout.readline(), 60) == b"up\n"
    started = descendants(process.pid)
    assert len(started) >= 3
    process.send_signal(sent)
    await process.wait()
    await until_gone(started)


async def test_a_chromium_that_does_not_start_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHROMIUM", "/nonexistent/chromium")
    with pytest.raises(BrowserFailed, match="did not start") as failure:
        async with launch_browser():
            pass
    assert "CHROMIUM" in failure.value.hint


async def test_a_window_without_a_display_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(BrowserFailed, match="no display") as told:
        async with launch_browser(headed=True):
            pass
    assert "--headless" in told.value.hint
