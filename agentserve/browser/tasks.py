"""What a task's own check says. The runner asks it, scenarios answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class TaskState:
    """How far a task is. ``done`` ends the run; ``success`` is what the run is worth then."""

    done: bool
    reward: float
    success: bool


Check = Callable[[], Awaitable[TaskState]]
