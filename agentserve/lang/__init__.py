"""SGLang's frontend language for screenshot sessions: what programs import, and their host.

A program is a file with two ``@sgl.function``s, ``begin(s, task)`` and
``turn(s, view, instruction, feedback)``; see ``programs/navigator.py``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentserve.lang.endpoint import RouterEndpoint
    from agentserve.lang.expressions import ScreenView, action, look_again, screen

__all__ = ["RouterEndpoint", "ScreenView", "action", "look_again", "screen"]

# Loaded on first use: they import sglang (seconds), and the host must watch its parent before that.
_HOMES = {
    "RouterEndpoint": "agentserve.lang.endpoint",
    "ScreenView": "agentserve.lang.expressions",
    "action": "agentserve.lang.expressions",
    "look_again": "agentserve.lang.expressions",
    "screen": "agentserve.lang.expressions",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
