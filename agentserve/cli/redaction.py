"""The options of what a run keeps out of its recording: --mask and --secret."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from agentserve.core.config import secret_value
from agentserve.core.elements import PageBox
from agentserve.core.errors import InvalidRequest

if TYPE_CHECKING:
    from agentserve.agents.run import Redacted

Mask = Annotated[
    list[str] | None,
    typer.Option(
        metavar="X,Y,WIDTH,HEIGHT",
        help="Region in CSS px that neither the model nor the recording sees; repeatable.",
    ),
]
Secret = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Environment variable whose value the recording must not hold; repeatable.",
    ),
]


def redacted(mask: list[str] | None, secret: list[str] | None) -> Redacted:
    """Raises InvalidRequest."""
    from agentserve.agents.run import Redacted
    from agentserve.replay.redaction.secrets import Secrets

    masks = tuple(parse_mask(text) for text in mask or ())
    values = {name: secret_given(name) for name in secret or ()}
    Secrets(values)  # said before anything is started
    return Redacted(masks, values)


def parse_mask(text: str) -> PageBox:
    """``10,20,300,40`` as a box. Raises InvalidRequest."""
    try:
        x, y, width, height = (float(part) for part in text.split(","))
        return PageBox(x=x, y=y, width=width, height=height)
    except (ValueError, ValidationError):
        raise InvalidRequest(
            f"--mask is X,Y,WIDTH,HEIGHT in CSS px, as 10,20,300,40, not {text[:100]!r}"
        ) from None


def secret_given(name: str) -> str:
    """The value of a secret that was named. Raises InvalidRequest."""
    value = secret_value(name)
    if not value:
        raise InvalidRequest(
            f"--secret {name[:100]}: there is no such environment variable",
            hint=f"for example: read -rs {name[:100]}; export {name[:100]}",
        )
    return value
