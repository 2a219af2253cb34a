"""The formats that can be imported: the one table of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agentserve.replay.importers import (
    agentnet,
    browser_use,
    chrome,
    osworld,
    playwright_codegen,
    playwright_trace,
)
from agentserve.replay.importers.sniffing import Sniffed
from agentserve.replay.importers.taken import Taken


@dataclass(frozen=True)
class ImportFormat:
    """A format of another tool."""

    name: str
    about: str
    """What it is and who writes it, in a few words."""
    fits: Callable[[Sniffed], bool]
    """Whether a source looks like one. Never raises, and reads no further than that needs."""
    take: Callable[[Path], Taken]
    """Reads it. Raises RecordingError."""


def _is_flow(source: Sniffed) -> bool:
    return "title" in source.object and isinstance(source.object.get("steps"), list)


def _is_trace(source: Sniffed) -> bool:
    return not source.is_folder and any(
        name.endswith(".trace") and "/" not in name for name in source.names
    )


def _is_codegen(source: Sniffed) -> bool:
    return "browserName" in source.first_line and "type" not in source.first_line


def _is_osworld(source: Sniffed) -> bool:
    return source.is_folder and osworld.TRAJECTORY in source.names


def _is_agentnet(source: Sniffed) -> bool:
    steps = source.object.get("steps") or source.object.get("traj")
    return "task_id" in source.object and isinstance(steps, list)


def _is_browser_use(source: Sniffed) -> bool:
    return isinstance(source.object.get("history"), list)


FORMATS: tuple[ImportFormat, ...] = (
    ImportFormat(
        chrome.FORMAT, "JSON that Chrome's DevTools Recorder exported", _is_flow, chrome.take
    ),
    ImportFormat(
        playwright_trace.FORMAT,
        "a trace.zip of Playwright 1.65",
        _is_trace,
        playwright_trace.take,
    ),
    ImportFormat(
        playwright_codegen.FORMAT,
        "actions of `playwright codegen --target jsonl`",
        _is_codegen,
        playwright_codegen.take,
    ),
    ImportFormat(osworld.FORMAT, "a folder with OSWorld's traj.jsonl", _is_osworld, osworld.take),
    ImportFormat(
        agentnet.FORMAT,
        "JSON of one task of AgentNet, beside its images",
        _is_agentnet,
        agentnet.take,
    ),
    ImportFormat(
        browser_use.FORMAT,
        "JSON that browser-use saved its history as",
        _is_browser_use,
        browser_use.take,
    ),
)
"""The first that fits is taken."""
