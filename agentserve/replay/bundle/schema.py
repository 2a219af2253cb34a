"""JSON Schemas of a bundle's files, for whoever writes or checks them in another language."""

from __future__ import annotations

from typing import Any

from agentserve.replay.bundle.format import EXPECT, LINE_ADAPTER, META, SCHEMA_VERSION, STEPS, Meta
from agentserve.replay.compare.expectations import Expectations

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schemas() -> dict[str, dict[str, Any]]:
    """By entry: of meta.json, of one line of steps.jsonl, and of expect.json.

    What a schema cannot say is checked by ``verify``: the order of lines, hashes, sizes.
    """
    return {
        META: _schema(Meta.model_json_schema(), "meta.json"),
        STEPS: _schema(LINE_ADAPTER.json_schema(), "A line of steps.jsonl"),
        EXPECT: _schema(Expectations.model_json_schema(), "expect.json"),
    }


def _schema(schema: dict[str, Any], title: str) -> dict[str, Any]:
    named = f"{title} of an agentserve recording of schema version {SCHEMA_VERSION}"
    return {"$schema": _DIALECT, **schema, "title": named}
