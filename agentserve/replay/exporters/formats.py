"""The formats that recordings can be exported to: the one table of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agentserve.core.errors import InvalidRequest
from agentserve.replay.bundle.reader import Recording
from agentserve.replay.exporters import chrome, osworld, playwright_script
from agentserve.replay.exporters.given import Given
from agentserve.replay.importers import chrome as chrome_importer
from agentserve.replay.importers import osworld as osworld_importer


@dataclass(frozen=True)
class ExportFormat:
    """A format of another tool."""

    name: str
    about: str
    """What it is, in a few words."""
    next_step: str
    """What to do with the files."""
    give: Callable[[Recording], Given]


# a format that is imported as well has one name
FORMATS: tuple[ExportFormat, ...] = (
    ExportFormat(
        chrome_importer.FORMAT,
        "JSON for Chrome's DevTools Recorder",
        "import it in Chrome: DevTools, Recorder, Import recording",
        chrome.give,
    ),
    ExportFormat(
        "playwright",
        "a Python script of Playwright",
        "run it with Python; CHROMIUM may name the browser",
        playwright_script.give,
    ),
    ExportFormat(
        osworld_importer.FORMAT,
        "a folder with OSWorld's traj.jsonl and pictures",
        "read it by what reads OSWorld's results",
        osworld.give,
    ),
)


def export_format(name: str) -> ExportFormat:
    """Raises InvalidRequest for the name of no format."""
    for known in FORMATS:
        if known.name == name:
            return known
    names = ", ".join(known.name for known in FORMATS)
    raise InvalidRequest(f"{name[:80]!r} is no format", hint=f"known: {names}")
