"""The published JSON Schemas and the models say the same of recordings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from replay.bundle.corpus import meta_with, step_with
from replay.bundle.corpus_contents import with_file
from replay.redaction.secret_builders import step_of_secrets
from replay.replay_builders import make_steps, record

from agentserve.replay import Recording, RecordingWriter
from agentserve.replay.bundle.format import EXPECT, META, STEPS
from agentserve.replay.bundle.schema import schemas

SCENARIOS = Path(__file__).resolve().parents[3] / "scenarios"


def complaints(folder: Path) -> list[str]:
    validators = {entry: Draft202012Validator(schema) for entry, schema in schemas().items()}
    lines = (folder / STEPS).read_text().splitlines()
    values: Iterator[tuple[str, Any]] = iter(
        [
            (entry, json.loads((folder / entry).read_text()))
            for entry in (META, EXPECT)
            if (folder / entry).exists()
        ]
        + [(STEPS, json.loads(line)) for line in lines]
    )
    return [
        f"{entry}: {error.message}"
        for entry, value in values
        for error in validators[entry].iter_errors(value)
    ]


def test_they_are_schemas():
    for schema in schemas().values():
        Draft202012Validator.check_schema(schema)
        assert "schema version 4" in schema["title"]


async def test_what_is_recorded_is_valid(recording: Recording, tmp_path: Path):
    assert complaints(recording.path) == []
    cut = await record(tmp_path, make_steps(1))
    assert complaints(cut.folder) == []
    writer = RecordingWriter(tmp_path, recording.meta.model_copy(update={"id": "odd"}))
    writer.append(step_of_secrets())
    writer.set_expectations(b'{"actions": {"tolerance_px": 4.0}, "steps": [{"index": 0}]}')
    assert complaints(writer.folder) == []


@pytest.mark.parametrize("meta", sorted(SCENARIOS.glob("*/recording*/**/meta.json")), ids=str)
def test_what_is_bundled_is_valid(meta: Path):
    assert complaints(meta.parent) == []


@pytest.mark.parametrize(
    "damage",
    [
        meta_with(schema_version=5),
        meta_with(id="../x"),
        meta_with(extra=1),
        meta_with(viewport={"width": 0, "height": 1}),
        meta_with(secrets=["a b"]),
        with_file(EXPECT, b'{"mood": 1}'),
        step_with(lambda step: step.update(index="1")),
        step_with(lambda step: step.update(screenshot="../x")),
        step_with(lambda step: step["performed"].update(kind="explode")),
        step_with(lambda step: step.update(type="note")),
        step_with(lambda step: step.pop("url")),
        step_with(lambda step: step["result"].update(mood="fine")),
    ],
)
def test_what_the_models_refuse_is_not(recording: Recording, damage):
    damage(recording.path)
    assert complaints(recording.path)
