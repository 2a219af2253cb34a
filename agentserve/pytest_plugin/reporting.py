"""What is told of replays beside pytest's own report: one page of all, and on GitHub annotations
and a summary."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentserve.pytest_plugin.keys import REPLAYED
from agentserve.regression.kept import keep, read_kept
from agentserve.replay import Replayed, ReplayReport
from agentserve.replay.telling import difference_line, plain

_RESULTS = "agentserve_results"
_REPORT = "agentserve_report"
MOST_ANNOTATIONS = 10
"""GitHub shows no more of a step."""


class Reporting:
    """A pytest plugin, of the controller and of each of xdist's workers."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._page = config.getoption("agentserve_html")
        told = getattr(config, "workerinput", {}).get(_RESULTS)
        self._temporary = None
        if told is None and self._page:
            self._temporary = tempfile.TemporaryDirectory(prefix="agentserve-results-")
            told = self._temporary.name
        self._results = Path(told) if told else None
        self._reports: list[ReplayReport] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput[_RESULTS] = str(self._results) if self._results else None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Iterator[None]:
        report = yield
        replayed: Replayed | None = item.stash.get(REPLAYED, None)
        if call.when == "call" and replayed is not None:
            if self._results is not None:
                keep(replayed, self._results)
            # an attribute of a report travels from xdist's workers to its controller
            setattr(report, _REPORT, replayed.report.model_dump(mode="json"))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if (told := getattr(report, _REPORT, None)) is not None:
            self._reports.append(ReplayReport.model_validate(told))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._page and self._results is not None:
            from agentserve.replay.pages.replay import write_replay_page

            page = Path(self._page)
            write_replay_page(page, read_kept(self._results), title="pytest --agentserve")
            terminalreporter.write_line(f"replays: {page}")
        if os.environ.get("GITHUB_ACTIONS") == "true":
            for line in annotations(self._reports):
                terminalreporter.write_line(line)
            if path := os.environ.get("GITHUB_STEP_SUMMARY"):
                with Path(path).open("a", encoding="utf-8") as file:
                    file.write(markdown(self._reports))

    def pytest_unconfigure(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()


def annotations(reports: list[ReplayReport]) -> list[str]:
    """GitHub's workflow commands: one error a recording that differs."""
    lines = []
    for report in [report for report in reports if not report.same][:MOST_ANNOTATIONS]:
        title = f"{report.name} ({report.mode})"
        lines.append(f"::error title={_property(title)}::{_data(_all_found(report))}")
    return lines


def markdown(reports: list[ReplayReport]) -> str:
    """A table for GitHub's summary of a job."""
    rows = ["| recording | mode | steps | different | |", "|---|---|--:|--:|---|"]
    for report in reports:
        totals = report.totals
        mark = "✓" if report.same else "✗"
        cells = [report.name, report.mode, totals.recorded_steps, totals.different]
        rows.append("| " + " | ".join([*(_cell(cell) for cell in cells), mark]) + " |")
    return "\n".join(rows) + "\n"


def found(report: ReplayReport) -> list[str]:
    """What makes a replay fail, a line for each: the error that ended it, then what differs."""
    told = []
    if (error := report.error) is not None:
        where = "" if error.index is None else f"step {error.index}: "
        told.append(f"{where}{plain(error.message)} ({plain(error.code)})")
    for step in report.steps:
        told += [f"step {step.index}: {difference_line(each)}" for each in step.differences]
    told += [difference_line(each) for each in report.differences]
    return told or ["not every step was replayed and compared"]


def _all_found(report: ReplayReport) -> str:
    lines = found(report)
    left = len(lines) - MOST_ANNOTATIONS
    more = [f"… and {left} more"] if left > 0 else []
    return "\n".join([*lines[:MOST_ANNOTATIONS], *more])


def _data(text: str) -> str:
    """What a page or a model wrote cannot end the command, nor begin another one."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _cell(value: object) -> str:
    text = " ".join(str(value).split())
    return "".join(f"&#{ord(c)};" if c in "|<>&`[]*_\\" else c for c in text)
