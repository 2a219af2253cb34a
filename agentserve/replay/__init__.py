"""Recordings on disk: written during a run, fed back through the router, shown as a page."""

from agentserve.replay.format import EndLine, Meta, ScenarioRef, StepLine
from agentserve.replay.player import ReplayReport, StepReport, replay
from agentserve.replay.reader import Recording, read_recording
from agentserve.replay.record import Recorder
from agentserve.replay.report import RunRow, RunView, run_row, write_run_page
from agentserve.replay.summary import replay_summary
from agentserve.replay.writer import RecordingWriter

__all__ = [
    "EndLine",
    "Meta",
    "Recorder",
    "Recording",
    "RecordingWriter",
    "ReplayReport",
    "RunRow",
    "RunView",
    "ScenarioRef",
    "StepLine",
    "StepReport",
    "read_recording",
    "replay",
    "replay_summary",
    "run_row",
    "write_run_page",
]
