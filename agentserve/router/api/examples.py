"""Examples of the OpenAPI document, made from the models themselves so that they stay valid."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from agentserve.core.actions import Click
from agentserve.core.model import Wire
from agentserve.core.plans import Box
from agentserve.core.screens import Size, screen_space
from agentserve.core.screenshots import ScreenRegion, ScreenshotRef
from agentserve.core.sessions import (
    CallUsage,
    Outcome,
    Pin,
    Session,
    SessionCreate,
    SessionStatus,
    Timings,
    TurnRequest,
    TurnResult,
    Usage,
    WorkerRef,
)

_ID = "s_Zk3bRr1yQ0mJ8wqv5XnT2A"
_AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_SPACE = screen_space(Size(width=160, height=210), 1.4, 28)
_SHA = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
_CREATE = SessionCreate(
    program="navigator",
    task="Click the button labelled 'ok'.",
    model="nano",
    viewport=_SPACE.css,
    scale=1.4,
    policy="last:5",
    metadata={"suite": "miniwob"},
)
_USAGE = Usage(
    prompt_tokens=412,
    cached_tokens=288,
    visual_tokens=160,
    completion_tokens=9,
    prefilled_tokens=124,
    stored_prefix_tokens=288,
    calls=[CallUsage(prompt_tokens=412, cached_tokens=288, completion_tokens=9)],
)
SESSION = Session(
    id=_ID,
    status=SessionStatus.IDLE,
    **_CREATE.model_dump(exclude={"viewport", "scale"}),
    space=_SPACE,
    created_at=_AT,
    expires_at=_AT + timedelta(hours=1),
    last_active_at=_AT,
    pin=Pin(worker_id="w-1f0c2a9b3d", boot_id="b-5e1d", generation=1),
)
TURN_RESULT = TurnResult(
    session_id=_ID,
    turn=1,
    epoch=1,
    action=Click(x=40, y=63),
    model_action=Click(x=56, y=84),
    text="click 56 84",
    variables={"action": "click 56 84"},
    usage=_USAGE,
    timings=Timings(queue_ms=0.4, plan_ms=3.1, program_ms=182.0, total_ms=190.2),
    worker=WorkerRef(id="w-1f0c2a9b3d", boot_id="b-5e1d"),
    screenshot=_SHA,
)


def _example(model: Wire) -> dict[str, Any]:
    return {"value": model.model_dump(mode="json", exclude_none=True)}


CREATE = {"a MiniWoB++ task": _example(_CREATE)}
TURN_REQUEST = {
    "a blob that was sent before": _example(
        TurnRequest(
            screenshot=ScreenshotRef(blob=_SHA),
            instruction="Now close the dialog.",
            epoch=1,
            outcome=Outcome(status="ok"),
        )
    ),
    "what has changed since an earlier one": _example(
        TurnRequest(
            screenshot=ScreenshotRef(
                base=_SHA,
                regions=[
                    ScreenRegion(box=Box(x=64, y=20, width=90, height=32), base64="iVBORw0KGgo=")
                ],
                sha256="60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752",
            ),
            epoch=2,
        )
    ),
    "inline": _example(TurnRequest(screenshot=ScreenshotRef(base64="iVBORw0KGgo="), epoch=0)),
}


def responds(
    status: int, description: str, model: Wire, also: dict[str, Any] | None = None
) -> dict[int | str, dict[str, Any]]:
    """An OpenAPI response with ``model`` as its example, and ``also`` of other media types."""
    content = {"application/json": {"example": model.model_dump(mode="json")}, **(also or {})}
    return {status: {"description": description, "content": content}}
