"""The options that say how a session's screens are sent, for every command that makes sessions."""

from __future__ import annotations

from typing import Annotated

import typer

from agentserve.core.sessions import Positions, ScreenPolicy, VisionContext

DEFAULT = ScreenPolicy()
"""What sessions do unless told otherwise."""

Policy = Annotated[
    str,
    typer.Option(
        help="Screens in the prompt: full, current, last:N, interval:MIN:STEP, or mosaic."
    ),
]
Cell = Annotated[
    int | None,
    typer.Option(min=1, help="mosaic: edge of a cell in model px. (default: four tokens)"),
]
PositionsOption = Annotated[
    Positions, typer.Option(help="mosaic: where a screen's tokens lie; see the README.")
]
Context = Annotated[
    VisionContext,
    typer.Option("--vision-context", help="mosaic: what the vision encoder sees of the screen."),
]


def words_of(screens: ScreenPolicy, default: ScreenPolicy) -> list[str]:
    """The options that give ``screens`` where ``default`` is the default."""
    words = []
    for name in ScreenPolicy.model_fields:
        if (value := getattr(screens, name)) != getattr(default, name):
            words += [f"--{name.replace('_', '-')}", str(value)]
    return words
