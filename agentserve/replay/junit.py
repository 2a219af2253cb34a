"""What replays found as JUnit XML, in the form that Jenkins, GitLab and GitHub's actions read.

The root is ``testsuites``; a ``testsuite`` holds the replays of one mode; a ``testcase`` is one
recording: passed, with a ``failure`` that lists what differs, or with an ``error`` when the replay
ended early. Children come in the order of the JUnit 10 schema of Jenkins' xUnit plugin.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.etree import ElementTree

from agentserve.core.errors import RecordingError
from agentserve.replay.bundle.files import write_whole
from agentserve.replay.results import ReplayReport
from agentserve.replay.telling import counts_by_comparer, counts_text, done_in, lines, plain

MAX_TEXT = 64 * 1024
"""Characters of one element; a test report that nobody can open helps nobody."""

# What XML 1.0 can hold, escaped or not, is this; anything else makes a file that no parser takes.
_INVALID = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_COUNTED = ("prompt_tokens", "cached_tokens", "visual_tokens", "prefilled_tokens")


def write_junit(path: Path, reports: Sequence[ReplayReport]) -> None:
    """Write the file, whole or not at all. Blocking. Raises RecordingError."""
    try:
        write_whole(path, junit_xml(reports))
    except OSError as error:
        raise RecordingError(f"cannot write {path}: {error.strerror or error}") from error


def junit_xml(reports: Sequence[ReplayReport]) -> bytes:
    """The document, in UTF-8."""
    modes = list(dict.fromkeys(report.mode for report in reports))
    root = ElementTree.Element("testsuites", _counts("agentserve replay", reports))
    for mode in modes:
        of_mode = [report for report in reports if report.mode == mode]
        suite = ElementTree.SubElement(root, "testsuite", _counts(f"replay.{mode}", of_mode))
        for report in of_mode:
            _add_case(suite, report)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _counts(name: str, reports: Sequence[ReplayReport]) -> dict[str, str]:
    errors = sum(report.error is not None for report in reports)
    return {
        "name": name,
        "tests": str(len(reports)),
        "failures": str(sum(not report.same for report in reports) - errors),
        "errors": str(errors),
        "skipped": "0",
        "time": _seconds(sum(report.seconds for report in reports)),
    }


def _add_case(suite: ElementTree.Element, report: ReplayReport) -> None:
    attributes = {
        "classname": f"replay.{report.mode}",
        "name": _valid(plain(report.name)),
        "time": _seconds(report.seconds),
    }
    case = ElementTree.SubElement(suite, "testcase", attributes)
    _add_properties(case, report)
    found = counts_text(counts_by_comparer([report]))
    if report.error is not None:
        error = report.error
        where = "" if error.index is None else f"step {error.index}: "
        message = f"{where}{error.message}"
        text = [message, error.hint, *_told(report)]
        _add_fault(case, "error", error.code, message, filter(None, text))
    elif not report.same:
        totals = report.totals
        message = f"{totals.different} of {totals.recorded_steps} steps differ"
        message += f": {found}" if found else ""
        kinds = ",".join(counts_by_comparer([report])) or "incomplete"
        _add_fault(case, "failure", kinds, message, _told(report))
    if report.notes:
        notes = ElementTree.SubElement(case, "system-out")
        notes.text = _valid("\n".join(f"note: {plain(note, 2000)}" for note in report.notes))


def _add_properties(case: ElementTree.Element, report: ReplayReport) -> None:
    totals = report.totals
    values = {
        "recording": report.recording,
        "task": report.task,
        "steps": str(totals.recorded_steps),
        "steps.same": str(totals.same),
        "steps.not_compared": str(totals.not_compared),
        **{f"settings.{name}": value for name, value in report.settings.items()},
    }
    for side, usage in (("recorded", totals.recorded_usage), ("replayed", totals.replayed_usage)):
        values |= {f"{side}.{name}": str(getattr(usage, name)) for name in _COUNTED}
    properties = ElementTree.SubElement(case, "properties")
    for name, value in values.items():
        attributes = {"name": _valid(plain(name)), "value": _valid(plain(value))}
        ElementTree.SubElement(properties, "property", attributes)


def _add_fault(
    case: ElementTree.Element, tag: str, kind: str, message: str, text: Iterable[str]
) -> None:
    attributes = {"message": _valid(plain(message)), "type": _valid(plain(kind))}
    ElementTree.SubElement(case, tag, attributes).text = _valid("\n".join(text))


def _told(report: ReplayReport) -> list[str]:
    told = []
    for step in report.steps:
        if not step.same:
            told.append(f"step {step.index}: {done_in(step)}")
            told += lines(step.differences, "  ")
    return told + lines(report.differences)


def _valid(text: str) -> str:
    cut = text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
    return _INVALID.sub("\ufffd", cut)


def _seconds(value: float) -> str:
    return f"{value:.3f}"
