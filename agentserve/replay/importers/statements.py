"""Steps whose actions are lines of PyAutoGUI, as OSWorld and AgentNet keep them."""

from __future__ import annotations

from typing import Any

from agentserve.core.actions.dialects import CoordinateSpace, pyautogui
from agentserve.core.actions.dialects.spaces import Point
from agentserve.core.actions.recorded import RecordedAction, Unsupported
from agentserve.core.errors import BadAction
from agentserve.core.runs import EndReason
from agentserve.replay.account import Account


def read_statements(
    text: str, space: CoordinateSpace, pointer: Point | None, step: int, account: Account
) -> tuple[RecordedAction, ...]:
    """The actions of a text. One that cannot be read is Unsupported, and a loss."""
    try:
        actions = pyautogui.read(text, space, pointer)
    except BadAction as error:
        account.lose(f"{text[:200]!r} was not understood: {error.message}", step)
        return (Unsupported(what=text[:2000] or "nothing"),)
    for action in actions:
        if isinstance(action, Unsupported):
            account.lose(f"there is no action for {action.what[:200]}", step)
    return actions


def end_after(action: Any) -> EndReason:
    """How a run ended whose last action this is."""
    if getattr(action, "kind", "") == "done":
        return "done" if action.status == "success" else "gave_up"
    return "closed"
