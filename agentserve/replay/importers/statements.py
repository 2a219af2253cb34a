"""Steps whose actions are lines of PyAutoGUI, as OSWorld and AgentNet keep them."""

from __future__ import annotations

import re
from typing import Any

from agentserve.core.actions.dialects import CoordinateSpace, pyautogui
from agentserve.core.actions.dialects.spaces import Point
from agentserve.core.actions.recorded import RecordedAction, Unsupported
from agentserve.core.actions.union import Done
from agentserve.core.errors import BadAction
from agentserve.core.runs import EndReason
from agentserve.replay.account import Account, shortened
from agentserve.replay.importers.losses import MAX_WORDS, tell_unsupported

_FRACTIONS = re.compile(r"\b(?:sleep|wait)\((?:\w+=)?(\d*\.\d*[1-9])")


def read_statements(
    text: str, space: CoordinateSpace, pointer: Point | None, step: int, account: Account
) -> tuple[RecordedAction, ...]:
    """The actions of a text. One that cannot be read is Unsupported, and a loss."""
    try:
        actions = pyautogui.read(text, space, pointer)
    except BadAction as error:
        account.lose(f"{shortened(text, 200)!r} was not understood: {error.message}", step)
        return (Unsupported(what=shortened(text, 2000) or "nothing"),)
    for action in actions:
        tell_unsupported(action, account, step)
        if len(getattr(action, "text", "")) == MAX_WORDS and isinstance(action, Done):
            account.lose(f"of what it says at its end, {MAX_WORDS} characters are kept", step)
    for seconds in _FRACTIONS.findall(text):
        account.lose(f"a pause of {seconds[:20]} s became one of whole seconds", step)
    return actions


def end_after(action: Any) -> EndReason:
    """How a run ended whose last action this is."""
    if getattr(action, "kind", "") == "done":
        return "done" if action.status == "success" else "gave_up"
    return "closed"
