"""The base of every wire model: frozen, and closed to unknown fields."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Wire(BaseModel):
    """A value that crosses a process boundary. Unknown fields are errors, instances are frozen.

    Numbers are finite: JSON has no way to write the others.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
