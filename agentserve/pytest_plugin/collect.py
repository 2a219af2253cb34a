"""Recordings as pytest's collectors and items: ``scenarios/form/recordings/ok::model``."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from agentserve.core.errors import AgentServeError
from agentserve.pytest_plugin import MODES, service_of
from agentserve.pytest_plugin.keys import REPLAYED
from agentserve.regression.options import ReplayOptions, default_mode
from agentserve.replay import (
    Recording,
    Replayed,
    ReplayReport,
    read_recording,
    replay_summary,
)


class ReplayDiffers(Exception):
    """Something of a replay is not as it was recorded."""

    def __init__(self, report: ReplayReport) -> None:
        super().__init__(_plain(report))
        self.report = report


class RecordingFolder(pytest.Directory):
    """A recording that is a folder."""

    def collect(self) -> Iterator[pytest.Item]:
        yield from _items(self, self.path)


class RecordingZip(pytest.File):
    """A recording that is a zip file."""

    def collect(self) -> Iterator[pytest.Item]:
        yield from _items(self, self.path)


class ReplayItem(pytest.Item):
    """One recording in one mode."""

    def __init__(self, *, path: Path, mode: str, **more: Any) -> None:
        super().__init__(path=path, **more)
        self._mode = mode
        self.add_marker("replay")

    def runtest(self) -> None:
        config = self.config
        options = ReplayOptions(mode=self._mode, on_miss=config.getoption("agentserve_on_miss"))
        recording = read_recording(self.path)
        replayed = service_of(config).replay(recording, self.recording_name, options)
        self.stash[REPLAYED] = replayed
        self._tell(replayed)
        if config.getoption("agentserve_update") and _can_be_accepted(replayed):
            from agentserve.regression.accepting import accept_replayed

            accept_replayed(replayed)
            return
        if not replayed.report.same:
            raise ReplayDiffers(replayed.report)

    @property
    def recording_name(self) -> str:
        """Its path below pytest's root folder."""
        return self.nodeid.partition("::")[0]

    def _tell(self, replayed: Replayed) -> None:
        """Figures of the replay in the JUnit file that pytest writes."""
        totals = replayed.report.totals
        self.user_properties += [
            ("mode", self._mode),
            ("steps", totals.recorded_steps),
            ("different", totals.different),
            ("prompt_tokens", totals.replayed_usage.prompt_tokens),
            ("cached_tokens", totals.replayed_usage.cached_tokens),
        ]

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:
        error = excinfo.value
        if isinstance(error, ReplayDiffers):
            return str(error)
        if isinstance(error, AgentServeError):
            return f"{error.code}: {error.message}" + (
                f"\nhint: {error.hint}" if error.hint else ""
            )
        return str(super().repr_failure(excinfo, style))

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, f"{self.recording_name}::{self._mode}"


def _plain(report: ReplayReport) -> str:
    console = Console(width=120, color_system=None, force_terminal=False, file=io.StringIO())
    with console.capture() as capture:
        console.print(replay_summary(report))
    return capture.get()


def _items(parent: pytest.Collector, path: Path) -> Iterator[pytest.Item]:
    """One a mode. Raises CollectError with what is wrong of a damaged recording."""
    try:
        recording = read_recording(path)
    except AgentServeError as error:
        raise parent.CollectError(f"{error.code}: {error.message}") from error
    for mode in _modes(parent.config, recording):
        yield ReplayItem.from_parent(parent, name=mode, path=path, mode=mode)


def _modes(config: pytest.Config, recording: Recording) -> list[str]:
    asked = [mode.strip() for mode in config.getoption("agentserve_mode").split(",") if mode]
    unknown = [mode for mode in asked if mode not in MODES]
    if unknown:
        raise pytest.UsageError(f"--agentserve-mode: {unknown[0]!r} is none of {', '.join(MODES)}")
    if not asked:
        return [default_mode(recording)]
    # nobody can ask a model for what no agent did
    agents = recording.meta.session is not None
    return [mode for mode in dict.fromkeys(asked) if agents or mode == "browser"]


def _can_be_accepted(replayed: Replayed) -> bool:
    return replayed.report.error is None and not replayed.report.same
