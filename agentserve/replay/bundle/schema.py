"""JSON Schemas of a bundle's files, for whoever writes or checks them in another language."""

from __future__ import annotations

from typing import Any

from agentserve.replay.bundle.format import LINE_ADAPTER, META, SCHEMA_VERSION, STEPS, Meta

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schemas() -> dict[str, dict[str, Any]]:
    """By entry: of meta.json, and of one line of steps.jsonl.

    What a schema cannot say is checked by ``verify``: the order of lines, hashes, sizes.
    """
    return {
        META: _schema(Meta.model_json_schema(), "meta.json of an agentserve recording"),
        STEPS: _schema(LINE_ADAPTER.json_schema(), "A line of steps.jsonl"),
    }


def _schema(schema: dict[str, Any], title: str) -> dict[str, Any]:
    named = f"{title}, schema version {SCHEMA_VERSION}"
    return {"$schema": _DIALECT, **schema, "title": named}
