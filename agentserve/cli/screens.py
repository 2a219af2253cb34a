"""The options that say how a session's screens are sent, for every command that makes sessions."""

from __future__ import annotations

from typing import Annotated, get_args

import typer

from agentserve.core.errors import InvalidRequest
from agentserve.core.model import Wire
from agentserve.core.pruning import (
    METHODS,
    EvictionMethod,
    Preset,
    parse_eviction,
    parse_pruning,
)
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

PresetOption = Annotated[
    Preset | None,
    typer.Option("--preset", help="mosaic: pruning and eviction by a name; see the README."),
]
PruningOption = Annotated[
    str | None,
    typer.Option(
        "--pruning",
        help="mosaic: leave out visual tokens: METHOD, METHOD:RATIO or JSON. Methods: "
        + ", ".join(METHODS),
    ),
]
EvictionOption = Annotated[
    str | None,
    typer.Option(
        "--eviction",
        help="mosaic: let visual tokens go after the answer: METHOD, METHOD:KEEP or JSON. "
        "Methods: " + ", ".join(get_args(EvictionMethod)),
    ),
]


def screen_policy(
    policy: str,
    cell: int | None,
    positions: Positions,
    vision_context: VisionContext,
    preset: Preset | None,
    pruning: str | None,
    eviction: str | None,
) -> ScreenPolicy:
    """From the options. Raises InvalidRequest."""
    if preset is not None and (pruning is not None or eviction is not None):
        raise InvalidRequest(
            f"--preset {preset} says what is pruned and evicted already",
            hint="leave out --pruning and --eviction, or --preset",
        )
    return ScreenPolicy(
        policy=policy,
        cell=cell,
        positions=positions,
        vision_context=vision_context,
        preset=preset,
        pruning=None if pruning is None else parse_pruning(pruning),
        eviction=None if eviction is None else parse_eviction(eviction),
    )


def words_of(screens: ScreenPolicy, default: ScreenPolicy) -> list[str]:
    """The options that give ``screens`` where ``default`` is the default."""
    words = []
    for name in ScreenPolicy.model_fields:
        if (value := getattr(screens, name)) != getattr(default, name):
            text = value.model_dump_json() if isinstance(value, Wire) else str(value)
            words += [f"--{name.replace('_', '-')}", text]
    return words
