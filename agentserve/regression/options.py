"""What is asked of a replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from agentserve.replay import Recording
from agentserve.replay.results import Mode

OnMiss = Literal["fail", "live"]


@dataclass(frozen=True)
class ReplayOptions:
    """Whatever a recording's own expectations do not say."""

    mode: Mode
    tolerance_px: float | None = None
    """By how much points may differ; None: as the recording's expectations say."""
    network: Literal["live", "recorded"] = "live"
    """``recorded``: pages are answered from the recording. ``live``: where it holds what pages
    fetched, what they fetch now is compared with it."""
    on_miss: OnMiss = "fail"
    """Of recorded network answers: what a request gets that was not recorded."""
    go_by_unsupported: bool = False
    """Whether to leave out steps that have no equal here."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """By the names that stand in the recording for them."""


def default_mode(recording: Recording) -> Mode:
    """An agent's recording is shown to the model again, another one to the browser."""
    return "browser" if recording.meta.session is None else "model"
