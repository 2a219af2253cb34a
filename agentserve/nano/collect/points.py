"""From what the page's scripts say (CSS px) to what a model sees and answers (model px)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentserve.core.actions import Action, format_action
from agentserve.core.screens import ScreenSpace, Size, screen_space
from agentserve.nano.oracles import OracleStep, to_action

VIEWPORT = Size(width=160, height=210)
"""CSS px of every MiniWoB++ task."""
SCALE = 1.4
SPACE = screen_space(VIEWPORT, SCALE, 28)
"""160x210 CSS px, 224x280 model px."""
Box = Sequence[float]


def to_model_box(box: Box, space: ScreenSpace = SPACE) -> list[float]:
    """A box in CSS px as one in model px, cut to the screen, to a tenth of a px."""
    fx, fy = space.model.width / space.css.width, space.model.height / space.css.height
    left, top, right, bottom = box
    return [
        round(min(max(value * factor, 0), limit), 1)
        for value, factor, limit in (
            (left, fx, space.model.width),
            (top, fy, space.model.height),
            (right, fx, space.model.width),
            (bottom, fy, space.model.height),
        )
    ]


def to_model_word(word: Sequence[Any], space: ScreenSpace = SPACE) -> list[Any]:
    """``[text, top, bottom, x0, …, xn]`` in CSS px as the same in model px."""
    text, top, bottom, *edges = word
    fx, fy = space.model.width / space.css.width, space.model.height / space.css.height
    return [text, round(top * fy, 1), round(bottom * fy, 1), *(round(x * fx, 1) for x in edges)]


def step_action(step: dict[str, Any], space: ScreenSpace = SPACE) -> Action:
    """The action, in model px, that carries out a step as the oracle's script tells it."""
    box = step["box"]
    return to_action(OracleStep(**{**step, "box": box and tuple(box)}), space)


def make_record(
    task: str,
    seed: int,
    told: dict[str, Any],
    *,
    turn: int = 0,
    history: Sequence[tuple[str, str]] = (),
    space: ScreenSpace = SPACE,
) -> dict[str, Any]:
    """A record of what a page told: ``{goal, step, elements, words}`` in CSS px. No ``png`` yet."""
    step = told["step"]
    box = step["box"] if step else None
    return {
        "task": task,
        "seed": seed,
        "goal": told["goal"],
        "turn": turn,
        "history": [list(pair) for pair in history],
        "thought": step["thought"] if step else None,
        "action": format_action(step_action(step, space)) if step else None,
        "target": to_model_box(box, space) if box else None,
        "elements": [
            {**element, "box": to_model_box(element["box"], space)} for element in told["elements"]
        ],
        "words": [to_model_word(word, space) for word in told["words"]],
    }
