"""Recordings on disk: written during a run, fed back through the router, shown as a page."""

from agentserve.replay.bundle.format import EndLine, Meta, ScenarioRef, StepLine
from agentserve.replay.bundle.reader import AgentRun, Recording, Turn, read_recording
from agentserve.replay.bundle.writer import RecordingWriter
from agentserve.replay.compare.accepting import accept, accepted_files
from agentserve.replay.compare.difference import Difference
from agentserve.replay.compare.expectations import (
    Expectations,
    load_expectations,
    save_expectations,
)
from agentserve.replay.junit import write_junit
from agentserve.replay.modes.model import replay_model
from agentserve.replay.pages.replay import write_replay_page
from agentserve.replay.pages.run import RunRow, RunView, run_row, write_run_page
from agentserve.replay.recorder import Recorder
from agentserve.replay.results import Replayed, ReplayReport, StepReport
from agentserve.replay.summary import replay_summary, replays_summary

__all__ = [
    "AgentRun",
    "Difference",
    "EndLine",
    "Expectations",
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
    "accept",
    "accepted_files",
    "load_expectations",
    "read_recording",
    "replay_model",
    "replay_summary",
    "replays_summary",
    "run_row",
    "save_expectations",
    "write_junit",
    "write_replay_page",
    "write_run_page",
]
