"""Builders of sessions, steps and recordings, small and with every field filled."""

from __future__ import annotations

import hashlib
import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from PIL import Image

from agentserve.core.actions import Click
from agentserve.core.runs import RunSummary, Step
from agentserve.core.screens import Size, screen_space
from agentserve.core.sessions import (
    CallUsage,
    Outcome,
    Session,
    SessionStatus,
    Timings,
    TurnResult,
    Usage,
    WorkerRef,
)
from agentserve.replay import Recorder

SPACE = screen_space(Size(width=160, height=210), 1.4, 28)


def make_png(shade: int = 0, size: tuple[int, int] = (224, 280)) -> bytes:
    """A small PNG; another shade gives other bytes."""
    buffer = io.BytesIO()
    Image.new("RGB", size, (shade % 256, shade // 256 % 256, 90)).save(buffer, "PNG")
    return buffer.getvalue()


def make_session(**update: Any) -> Session:
    now = datetime(2025, 11, 29, 12, 0, tzinfo=UTC)
    fields = {
        "id": "s_recorded",
        "status": SessionStatus.IDLE,
        "program": "navigator",
        "task": "Click on the “Ok” button.",
        "model": "nano",
        "policy": "last:3",
        "space": SPACE,
        "metadata": {"suite": "tests"},
        "created_at": now,
        "expires_at": now,
        "last_active_at": now,
        "timeout_s": 1200.0,
        "inactivity_timeout_s": 60.0,
    }
    return Session(**{**fields, **update})


def make_usage(index: int, **update: int) -> Usage:
    prompt = 200 + 90 * index
    fields: dict[str, Any] = {
        "prompt_tokens": prompt,
        "cached_tokens": 110 + 90 * (index - 1) if index else 0,
        "visual_tokens": 80 * (index + 1),
        "completion_tokens": 24,
        "prefilled_tokens": 95,
    }
    call = CallUsage(prompt_tokens=prompt, cached_tokens=0, completion_tokens=24)
    return Usage(**{**fields, **update}, calls=[call])


def make_result(index: int = 0, png: bytes = b"", **update: Any) -> TurnResult:
    action = Click(x=40 + index, y=60)
    fields = {
        "session_id": "s_recorded",
        "turn": index,
        "epoch": index,
        "action": action,
        "model_action": Click(x=56 + index, y=84),
        "text": f"The button is there.\nclick {56 + index} 84",
        "variables": {"thought": "The button is there.", "action": f"click {56 + index} 84"},
        "usage": make_usage(index),
        "timings": Timings(queue_ms=1.5, plan_ms=8.25, program_ms=300.0, total_ms=310.5 + index),
        "worker": WorkerRef(id="w-0123456789", boot_id="boot"),
        "screenshot": hashlib.sha256(png).hexdigest(),
    }
    return TurnResult(**{**fields, **update})


def make_step(index: int = 0, png: bytes = b"", **update: Any) -> Step:
    result = update.pop("result", None) or make_result(index, png)
    fields = {
        "index": index,
        "url": f"http://127.0.0.1:8000/page?step={index}",
        "instruction": None,
        "outcome_sent": Outcome(status="ok", message="clicked") if index else None,
        "result": result,
        "performed": result.action,
        "outcome": Outcome(status="ok"),
        "step_ms": 512.125,
    }
    return Step(**{**fields, **update})


async def record(
    root: Path,
    steps: list[tuple[Step, bytes]],
    *,
    end: RunSummary | None = None,
    session: Session | None = None,
    **facts: Any,
) -> Recorder:
    """A recording of these steps and their screenshots; cut off when there is no end."""
    recorder = Recorder(root, **facts)
    await recorder.started(session or make_session(), "http://127.0.0.1:8000/")
    for step, png in steps:
        await recorder.screenshot(step.index, png)
        await recorder.step(step)
    if end is not None:
        await recorder.ended(end)
    return recorder


def make_steps(count: int) -> list[tuple[Step, bytes]]:
    pictures = [make_png(index) for index in range(count)]
    return [(make_step(index, png), png) for index, png in enumerate(pictures)]


DONE = RunSummary(session_id="s_recorded", end="done", success=True, reward=1.0, turns=3)
