"""Recordings on disk: written during a run, fed back through the router, shown as a page."""

from agentserve.replay.bundle.format import EndLine, Meta, ScenarioRef, StepLine
from agentserve.replay.bundle.reader import AgentRun, Recording, Turn, read_recording
from agentserve.replay.bundle.writer import RecordingWriter
from agentserve.replay.modes.model import replay_model
from agentserve.replay.pages.run import RunRow, RunView, run_row, write_run_page
from agentserve.replay.recorder import Recorder
from agentserve.replay.results import Replayed, ReplayReport, StepReport
from agentserve.replay.summary import replay_summary

__all__ = [
    "AgentRun",
    "EndLine",
    "Meta",
    "Recorder",
    "Recording",
    "RecordingWriter",
    "ReplayReport",
    "Replayed",
    "RunRow",
    "RunView",
    "ScenarioRef",
    "StepLine",
    "StepReport",
    "Turn",
    "read_recording",
    "replay_model",
    "replay_summary",
    "run_row",
    "write_run_page",
]
