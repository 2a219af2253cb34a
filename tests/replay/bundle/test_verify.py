from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest
from replay.bundle.corpus import READ_DAMAGES, meta_with, step_with
from replay.bundle.corpus_contents import VERIFY_DAMAGES, har
from replay.replay_builders import make_png, make_steps, record

from agentserve.replay import Recording, RecordingWriter
from agentserve.replay.bundle.format import EXPECT, META, NETWORK, STEPS
from agentserve.replay.bundle.verify import Finding, verify


def errors(path: Path) -> list[Finding]:
    return [finding for finding in verify(path) if finding.severity == "error"]


def test_a_whole_recording_has_nothing(recording: Recording):
    assert verify(recording.path) == []


@pytest.mark.parametrize("name", [*READ_DAMAGES, *VERIFY_DAMAGES])
def test_each_damage_is_found_under_its_entry_s_name(recording: Recording, name: str):
    damage, message = (READ_DAMAGES | VERIFY_DAMAGES)[name]
    damage(recording.path)
    found = [f for f in errors(recording.path) if re.match(f"clean: {message}", f.message)]
    assert found, verify(recording.path)
    assert all(f.entry and f.hint and f.message.startswith(f"clean: {f.entry}") for f in found)


def test_all_damages_are_found_at_once(recording: Recording):
    """Whoever mends a recording by hand is told of everything in one go."""
    step_with(lambda step: step.update(aria="a" * 64))(recording.path)
    damaged = {f"screenshots/{step.screenshot}.png" for step in recording.steps[:2]}
    for entry in damaged:
        (recording.path / entry).write_bytes(b"")
    meta_with(source="import")(recording.path)
    (recording.path / NETWORK).write_bytes(b"{}")
    entries = [finding.entry for finding in errors(recording.path)]
    assert sorted(entries) == sorted([META, NETWORK, f"aria/{'a' * 64}.yml", *damaged])


async def test_what_is_strange_is_a_warning(recording: Recording):
    """None of it keeps a recording from being replayed."""
    sha = "0" * 64
    for entry, data in {
        "notes.md": b"mine",
        f"screenshots/{sha}.png": make_png(9),
        f"screenshots/.{sha}.png.0a1b2c3d": b"half",
        "heatmaps/0099.png": make_png(9),
        ".git/config": b"",
    }.items():
        (recording.path / entry).parent.mkdir(exist_ok=True)
        (recording.path / entry).write_bytes(data)
    found = {finding.entry: finding for finding in verify(recording.path)}
    assert {finding.severity for finding in found.values()} == {"warning"}
    assert {entry: f.message.rpartition(": ")[2] for entry, f in found.items()} == {
        "notes.md": "no entry of a recording",
        f"screenshots/{sha}.png": "no step names it",
        f"screenshots/.{sha}.png.0a1b2c3d": "left by a write that was cut off",
        "heatmaps/0099.png": "no step names it",
        ".git/": "no folder of a recording",
    }
    assert all(finding.hint for finding in found.values())


async def test_a_recording_that_was_cut_off_is_told(tmp_path: Path):
    recorder = await record(tmp_path, make_steps(2))
    (finding,) = verify(recorder.folder)
    assert (finding.entry, finding.severity) == (STEPS, "warning")
    assert "cut off" in finding.message


def test_optional_entries_that_are_whole(recording: Recording, tmp_path: Path):
    meta = recording.meta.model_copy(update={"id": "full"})
    writer = RecordingWriter(tmp_path, meta)
    sha = writer.add_aria("- button “Ok”")
    writer.add_screenshot(recording.screenshot(recording.steps[0].screenshot))
    writer.append(recording.steps[0].model_copy(update={"aria": sha}))
    writer.set_network(har())
    writer.set_expectations(b"{}")
    assert errors(writer.folder) == []


def test_a_network_that_a_kill_kept_from_being_written_is_no_damage(recording: Recording) -> None:
    meta = json.loads((recording.path / META).read_text())
    meta["page"]["network"] = "recorded"
    (recording.path / META).write_text(json.dumps(meta))
    assert [finding.entry for finding in errors(recording.path)] == ["network.har"]
    lines = (recording.path / STEPS).read_text().splitlines(keepends=True)
    (recording.path / STEPS).write_text("".join(lines[:-1]))
    assert errors(recording.path) == []
    assert "network.har" in [finding.entry for finding in verify(recording.path)]


def test_what_expectations_name_is_used(recording: Recording):
    """Alternatives that an update has accepted: no step names them, and a replay reads them."""
    data = make_png(99)
    sha = hashlib.sha256(data).hexdigest()
    (recording.path / f"screenshots/{sha}.png").write_bytes(data)
    (recording.path / EXPECT).write_text(
        json.dumps({"steps": [{"index": 1, "accepted_screens": [sha]}]})
    )
    assert verify(recording.path) == []
    (recording.path / f"screenshots/{sha}.png").write_bytes(data + b"x")
    assert [finding.entry for finding in errors(recording.path)] == [f"screenshots/{sha}.png"]


def test_where_there_is_nothing_that_is_a_finding(tmp_path: Path):
    (finding,) = verify(tmp_path / "nothing")
    assert finding.message == "nothing: there is no such folder or file"
    (finding,) = verify(tmp_path / ("x" * 300))
    assert finding.message.endswith("x: there is no such folder or file")
    (tmp_path / "file").write_text("hello")
    (finding,) = verify(tmp_path / "file")
    assert "no zip file" in finding.message
