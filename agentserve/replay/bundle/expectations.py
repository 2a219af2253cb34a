"""expect.json as bytes: its place, size and form. What it says is compare's to know."""

from __future__ import annotations

from pydantic_core import from_json

from agentserve.core.errors import RecordingError


def check_expectations(data: bytes) -> None:
    """Raises RecordingError for what is no JSON object."""
    try:
        values = from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise RecordingError(f"not JSON: {error}") from error
    if not isinstance(values, dict):
        raise RecordingError("not a JSON object")
