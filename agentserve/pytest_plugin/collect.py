"""Recordings as pytest's collectors and items: ``scenarios/form/recordings/ok/meta.json::model``.

A recording that is a folder is collected by its ``meta.json``: pytest takes an id of a file from
its command line, and none of a folder.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from agentserve.core.errors import AgentServeError
from agentserve.pytest_plugin import service_of
from agentserve.pytest_plugin.keys import REPLAYED
from agentserve.pytest_plugin.reporting import found
from agentserve.pytest_plugin.settings import settings_of
from agentserve.replay import Replayed, ReplayReport, read_recording, replay_summary
from agentserve.replay.bundle.format import META
from agentserve.replay.results import Mode
from agentserve.replay.telling import unsteered


class ReplayDiffers(Exception):
    """Something of a replay is not as it was recorded."""

    def __init__(self, report: ReplayReport, *, updated: bool) -> None:
        # pytest's summary shows the beginning of the first line
        told = [found(report)[0], "", _plain(report, None if updated else "--agentserve-update")]
        super().__init__("\n".join(told))
        self.report = report


class RecordingFolder(pytest.Directory):
    """A recording that is a folder."""

    def collect(self) -> Iterator[pytest.Collector]:
        yield RecordingFile.from_parent(self, path=self.path / META)


class RecordingFile(pytest.File):
    """A recording, by its zip file, or by the file that makes its folder one."""

    def collect(self) -> Iterator[pytest.Item]:
        """One test a mode. Raises CollectError with what is wrong of a damaged recording."""
        path = self.path.parent if self.path.name == META else self.path
        try:
            recording = read_recording(path)
        except AgentServeError as error:
            raise self.CollectError(unsteered(f"{error.code}: {error.message}")) from error
        for mode in settings_of(self.config).modes_of(recording):
            item = ReplayItem.from_parent(self, name=mode, path=path, mode=mode)
            if recording.meta.session is None and mode != "browser":
                item.add_marker(pytest.mark.skip(reason="a person's recording: no agent acted"))
            yield item


class ReplayItem(pytest.Item):
    """One recording in one mode."""

    def __init__(self, *, path: Path, mode: Mode, **more: Any) -> None:
        super().__init__(path=path, **more)
        self._mode = mode
        self.add_marker("replay")

    def runtest(self) -> None:
        settings = settings_of(self.config)
        recording = read_recording(self.path)
        replayed = service_of(self.config).replay(
            recording, self.recording_name, settings.options(self._mode)
        )
        self.stash[REPLAYED] = replayed
        if settings.update and not replayed.report.same:
            from agentserve.regression.accepting import accept_replayed

            replayed = accept_replayed(replayed, also=settings.also)
            self.stash[REPLAYED] = replayed
        self._tell(replayed)
        if not replayed.report.same:
            raise ReplayDiffers(replayed.report, updated=settings.update)

    @property
    def recording_name(self) -> str:
        """Its path below pytest's root folder."""
        path = self.nodeid.partition("::")[0]
        return path.removesuffix(META).rstrip("/") or self.path.name

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
            told = f"{error.code}: {error.message}" + (
                f"\nhint: {error.hint}" if error.hint else ""
            )
            return "\n".join(map(unsteered, told.splitlines()))
        return str(super().repr_failure(excinfo, style))

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, f"{self.recording_name}::{self._mode}"


def _plain(report: ReplayReport, update: str | None) -> str:
    console = Console(width=120, color_system=None, force_terminal=False, file=io.StringIO())
    with console.capture() as capture:
        console.print(replay_summary(report, update=update))
    return capture.get()
