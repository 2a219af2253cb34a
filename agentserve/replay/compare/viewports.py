"""The viewport that each step of a recording was seen in. Pure."""

from __future__ import annotations

from agentserve.core.actions.recorded import Resize
from agentserve.core.screens import Size
from agentserve.replay.bundle.reader import Recording


def viewport_at(recording: Recording, index: int) -> Size:
    """In CSS px: the last one that a step before ``index`` changed it to."""
    for step in reversed(recording.steps[:index]):
        if isinstance(step.performed, Resize) and step.outcome.status == "ok":
            return step.performed.size
    return recording.meta.viewport
