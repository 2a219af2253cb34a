"""The wire form of what is done to many sessions at once."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from agentserve.core.model import Wire
from agentserve.core.sessions import SessionId


class BulkRelease(Wire):
    """Body of ``POST /v1/sessions/release``: which sessions. Exactly one of the three."""

    ids: Annotated[list[SessionId], Field(min_length=1, max_length=1000)] | None = None
    metadata: dict[str, str] | None = None
    """Those whose metadata has all of these entries."""
    all: Literal[True] | None = None
    """All of the tenant's."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        given = [name for name in ("ids", "metadata", "all") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of ids, metadata and all")
        if self.metadata is not None and not self.metadata:
            raise ValueError("metadata names no entry: all sessions have no entry at least")
        return self


class BulkReleased(Wire):
    released: int
    """Sessions that were open, or paused, and are closed now."""
    unknown: list[SessionId] = Field(default_factory=list)
    """Of the ids, those that are none."""
