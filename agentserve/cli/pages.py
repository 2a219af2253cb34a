"""The options of how pages are made to show the same each time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from agentserve.core.errors import InvalidRequest
from agentserve.core.pages import PageSettings

FixedTime = Annotated[
    str | None, typer.Option(metavar="ISO", help="Time that the pages' clock stands still at.")
]
RandomSeed = Annotated[
    int | None, typer.Option(min=0, max=2**32 - 1, help="Seed of the pages' Math.random.")
]
Animations = Annotated[
    bool,
    typer.Option("--animations/--no-animations", help="Let animations and transitions run."),
]
Har = Annotated[
    bool, typer.Option("--har", help="Record what the pages fetch, to replay without a site.")
]


def page_settings(
    fixed_time: str | None, random_seed: int | None, animations: bool, har: bool
) -> PageSettings:
    """Raises InvalidRequest."""
    return PageSettings(
        fixed_time=_time(fixed_time),
        random_seed=random_seed,
        animations=animations,
        fonts_awaited=True,
        network="recorded" if har else "live",
    )


def _time(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequest(
            f"--fixed-time is a time as 2026-01-31T12:00:00Z, not {text[:100]!r}"
        ) from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
