"""Bundles as zip files: whole ones read as folders do, damaged ones are refused by the name of the
entry, and nothing is written anywhere."""

from __future__ import annotations

import random
import re
import zipfile
from pathlib import Path

import pytest
from replay.bundle.corpus import READ_DAMAGES
from replay.bundle.corpus_archives import ARCHIVE_DAMAGES, Contents, write_zip
from replay.bundle.corpus_contents import VERIFY_DAMAGES, flipped

from agentserve.core.errors import RecordingError
from agentserve.replay import Recording, read_recording
from agentserve.replay.bundle.format import META, STEPS
from agentserve.replay.bundle.packing import unpack
from agentserve.replay.bundle.verify import verify


def contents(folder: Path) -> Contents:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def tree(folder: Path) -> list[tuple[str, int]]:
    return sorted((str(path), path.lstat().st_mtime_ns) for path in folder.rglob("*"))


@pytest.mark.parametrize("top", ["", "clean/", "any name/"])
def test_a_zip_reads_like_its_folder(recording: Recording, tmp_path: Path, top: str):
    path = tmp_path / "clean.zip"
    write_zip(path, {top + name: data for name, data in contents(recording.path).items()})
    again = read_recording(path)
    assert (again.meta, again.steps, again.end) == (recording.meta, recording.steps, recording.end)
    assert (again.name, again.path) == ("clean.zip", path)
    for step in again.steps:
        assert again.screenshot(step.screenshot) == recording.screenshot(step.screenshot)
    assert verify(path) == []
    assert again.network() is None


def test_what_archivers_add_does_no_harm(recording: Recording, tmp_path: Path):
    """Entries for folders, and macOS's own files beside the one that was packed."""
    path = tmp_path / "clean.zip"
    with zipfile.ZipFile(path, "w") as packed:
        packed.mkdir("clean")
        packed.mkdir("clean/screenshots")
        for name, data in contents(recording.path).items():
            packed.writestr(f"clean/{name}", data)
        packed.writestr("__MACOSX/clean/._meta.json", b"mac")
        packed.comment = b"made by hand"
    assert read_recording(path).steps == recording.steps
    assert verify(path) == []


@pytest.mark.parametrize("name", ARCHIVE_DAMAGES)
def test_damage_is_refused_by_the_entry_s_name(recording: Recording, tmp_path: Path, name: str):
    made, message = ARCHIVE_DAMAGES[name]
    path = tmp_path / "bad.zip"
    made(contents(recording.path), path)
    before = tree(tmp_path)
    with pytest.raises(RecordingError, match=rf"^bad\.zip:? {message}") as caught:
        read_recording(path)
    assert caught.value.hint
    with pytest.raises(RecordingError):
        unpack(path, tmp_path / "out")
    assert any(finding.severity == "error" for finding in verify(path))
    assert tree(tmp_path) == before, "nothing was written, here or elsewhere"


OF_FOLDERS_ONLY = ("link", "pipe", "device", "folder", "folders", "large", "screenshots")
"""Words in the names of damages that are of a file system, or too large to be packed."""


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in (*READ_DAMAGES, *VERIFY_DAMAGES)
        if not set(name.split()) & set(OF_FOLDERS_ONLY)
    ],
)
def test_a_damaged_folder_is_refused_in_a_zip_as_well(
    recording: Recording, tmp_path: Path, name: str
):
    damage, message = (READ_DAMAGES | VERIFY_DAMAGES)[name]
    damage(recording.path)
    path = tmp_path / "clean"
    write_zip(path, contents(recording.path))
    if name == "names that differ by case":
        message = r"meta\.json: it is there twice"
    found = [finding.message for finding in verify(path) if finding.severity == "error"]
    assert any(re.match(f"clean: {message}", text) for text in found), found
    if name in READ_DAMAGES:
        with pytest.raises(RecordingError, match=f"^clean: {message}"):
            read_recording(path)


def test_a_flipped_byte_in_a_stored_picture(recording: Recording, tmp_path: Path):
    """The reader does not look at a picture before it is asked for; then the damage is told."""
    path, sha = tmp_path / "clean.zip", recording.steps[1].screenshot
    with zipfile.ZipFile(path, "w") as packed:
        for name, data in contents(recording.path).items():
            packed.writestr(name, data)
        at = packed.getinfo(f"screenshots/{sha}.png").header_offset + 400
    path.write_bytes(flipped(path.read_bytes(), at))
    again = read_recording(path)
    with pytest.raises(RecordingError, match=rf"^clean\.zip: screenshots/{sha}\.png: cannot be"):
        again.screenshot(sha)
    assert [finding.entry for finding in verify(path)] == [f"screenshots/{sha}.png"]


def test_chance_damage_raises_nothing_else(recording: Recording, tmp_path: Path):
    """Thousands of zip files and folders with some bytes changed, cut out or doubled."""
    chance = random.Random(20261130)
    path = tmp_path / "clean.zip"
    write_zip(path, contents(recording.path))
    files = {path: path.read_bytes()}
    files |= {recording.path / name: (recording.path / name).read_bytes() for name in (META, STEPS)}
    refused = 0
    for _ in range(1500):
        file = chance.choice(list(files))
        data = bytearray(files[file])
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(data))
            data[at : at + chance.choice([0, 1, 1, 1, 40])] = chance.choice(
                [b"", bytes([chance.randrange(256)]), data[at : at + 9], b"\xff\xff\xff\xff"]
            )
        file.write_bytes(data)
        try:
            again = read_recording(path if file == path else recording.path)
            for step in again.steps:
                again.screenshot(step.screenshot)
        except RecordingError:
            refused += 1
        file.write_bytes(files[file])
    assert refused > 800
