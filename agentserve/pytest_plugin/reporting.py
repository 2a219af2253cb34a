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
        lines.append(f"::error title={_property(title)}::{_data(_told(report))}")
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


def _told(report: ReplayReport) -> str:
    if report.error is not None:
        return f"{report.error.code}: {report.error.message}"
    of_steps = [
        f"step {step.index}: {difference.comparer}: {difference.message or difference.field}"
        for step in report.steps
        for difference in step.differences
    ]
    of_all = [f"{d.comparer}: {d.message or d.field}" for d in report.differences]
    return "\n".join([*of_steps, *of_all][:MOST_ANNOTATIONS]) or "not every step was replayed"


def _data(text: str) -> str:
    """What a page or a model wrote cannot end the command, nor begin another one."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _cell(value: object) -> str:
    text = " ".join(str(value).split())
    return "".join(f"&#{ord(c)};" if c in "|<>&`[]*_\\" else c for c in text)
