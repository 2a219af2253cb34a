"""The dialects in which models write actions, and recordings keep them: one module each.

All text is a model's, or of somebody's file: it is bounded, nothing of it is executed, and a point
outside the screen is an error. Names of keys are in ``keys``, what coordinates mean in ``spaces``.
"""

from __future__ import annotations

from agentserve.core.actions.dialects import anthropic, openai, pyautogui, qwen, ui_tars
from agentserve.core.actions.dialects.dialect import Dialect
from agentserve.core.actions.dialects.resize import (
    QWEN_MAX_PIXELS,
    QWEN_MIN_PIXELS,
    UI_TARS_MAX_PIXELS,
    UI_TARS_MIN_PIXELS,
    smart_resize,
)
from agentserve.core.actions.dialects.spaces import (
    CoordinateSpace,
    css_pixels,
    fractions,
    pixels,
    thousandths,
)
from agentserve.core.errors import InvalidRequest
from agentserve.core.screens import Size

__all__ = [
    "DIALECTS",
    "CoordinateSpace",
    "Dialect",
    "css_pixels",
    "dialect_named",
    "fractions",
    "pixels",
    "smart_resize",
    "thousandths",
]


def _display(screen: Size) -> CoordinateSpace:
    return pixels(screen, screen)


def _ui_tars(screen: Size) -> CoordinateSpace:
    image = smart_resize(screen, min_pixels=UI_TARS_MIN_PIXELS, max_pixels=UI_TARS_MAX_PIXELS)
    return pixels(image, screen)


def _qwen(screen: Size) -> CoordinateSpace:
    image = smart_resize(screen, min_pixels=QWEN_MIN_PIXELS, max_pixels=QWEN_MAX_PIXELS)
    return pixels(image, screen)


DIALECTS: tuple[Dialect, ...] = (
    Dialect("ui_tars_v1", thousandths, ui_tars.read, ui_tars.write_v1),
    Dialect("ui_tars_v1_5", _ui_tars, ui_tars.read, ui_tars.write_v1_5),
    Dialect("qwen2_5_vl", _qwen, qwen.read, qwen.write),
    Dialect("qwen3_vl", thousandths, qwen.read, qwen.write),
    Dialect("openai", _display, openai.read, openai.write),
    Dialect("anthropic", _display, anthropic.read, anthropic.write),
    Dialect("pyautogui", _display, pyautogui.read, pyautogui.write),
    Dialect("agentnet", fractions, pyautogui.read, pyautogui.write),
)


def dialect_named(name: str) -> Dialect:
    """The dialect of that name. Raises InvalidRequest."""
    for dialect in DIALECTS:
        if dialect.name == name:
            return dialect
    known = ", ".join(dialect.name for dialect in DIALECTS)
    raise InvalidRequest(f"no dialect is called {name!r}", hint=f"known: {known}")
