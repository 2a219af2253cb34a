from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

import pytest
from replay.bundle.corpus_contents import har
from replay.replay_builders import make_png

from agentserve.core.errors import RecordingError
from agentserve.replay import Recording, RecordingWriter, read_recording
from agentserve.replay.bundle import archive, packing
from agentserve.replay.bundle.format import EXPECT, META, NETWORK
from agentserve.replay.bundle.packing import pack, unpack
from agentserve.replay.bundle.verify import verify


@pytest.fixture
def full(recording: Recording, tmp_path: Path) -> Path:
    """A recording with everything that one can have."""
    meta = recording.meta.model_copy(update={"id": "full"})
    writer = RecordingWriter(tmp_path, meta)
    aria = writer.add_aria("- button “Ok”\n")
    for step in recording.steps:
        writer.add_screenshot(recording.screenshot(step.screenshot))
        writer.append(step.model_copy(update={"aria": aria}))
    writer.add_heatmap(0, make_png())
    writer.set_network(har())
    writer.set_expectations(b'{"schema_version": 1}')
    writer.append(recording.end)
    return writer.folder


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_there_and_back_everything_is_the_same(full: Path, tmp_path: Path):
    assert pack(full, tmp_path / "one.zip") == []
    assert unpack(tmp_path / "one.zip", tmp_path / "again") == []
    assert files(tmp_path / "again") == files(full)
    assert len(files(full)) == 9
    packed, again = read_recording(tmp_path / "one.zip"), read_recording(tmp_path / "again")
    assert (packed.steps, packed.network()) == (again.steps, again.network())
    assert packed.aria(packed.steps[0].aria) == "- button “Ok”\n"
    assert packed.entries.read(EXPECT, 99) == b'{"schema_version": 1}'
    assert verify(tmp_path / "one.zip") == verify(tmp_path / "again") == []


def test_the_same_recording_gives_the_same_bytes(full: Path, tmp_path: Path):
    """Whenever its files were written, in whatever order, and wherever it lies."""
    pack(full, tmp_path / "one.zip")
    other = tmp_path / "elsewhere" / "renamed"
    for path in sorted(full.rglob("*"), reverse=True):
        if path.is_file():
            to = other / path.relative_to(full)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, to)
            os.utime(to, (1e9, 1e9))
            to.chmod(0o600)
    pack(other, tmp_path / "two.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.zip") as packed:
        names = packed.namelist()
        assert names == sorted(names) and {name.split("/")[0] for name in names} == {"full"}
        for info in packed.infolist():
            stored = info.compress_type == zipfile.ZIP_STORED
            assert stored == info.filename.endswith(".png")


def test_what_is_no_part_of_it_is_left_out_and_told(full: Path, tmp_path: Path):
    (full / "notes.md").write_text("mine")
    (full / ".git").mkdir()
    (full / "screenshots" / f".{'0' * 64}.png.abcd").write_bytes(b"half")
    left = pack(full, tmp_path / "one.zip")
    assert left == [".git/", "notes.md", f"screenshots/.{'0' * 64}.png.abcd"]
    with zipfile.ZipFile(tmp_path / "one.zip", "a") as packed:
        packed.writestr("full/bin/run.sh", "rm -rf /")
    assert unpack(tmp_path / "one.zip", tmp_path / "again") == ["bin/run.sh"]
    assert not (tmp_path / "again" / "bin").exists()


def test_nothing_is_written_over_and_nothing_half(full: Path, tmp_path: Path, monkeypatch):
    pack(full, tmp_path / "one.zip")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(RecordingError, match="is there already"):
        pack(full, tmp_path / "one.zip")
    with pytest.raises(RecordingError, match="is there already"):
        unpack(tmp_path / "one.zip", full)
    with pytest.raises(RecordingError, match="cannot write .*No such file") as missing:
        pack(full, tmp_path / "no folder" / "one.zip")
    assert missing.value.hint == f"make the folder {tmp_path / 'no folder'} first"
    for write in (pack, unpack):
        with pytest.raises(RecordingError, match="cannot write .*name too long"):
            write(full if write is pack else tmp_path / "one.zip", tmp_path / ("x" * 300))
    monkeypatch.setattr(packing, "write_whole", _full)
    with pytest.raises(RecordingError, match="cannot write .*No space left"):
        unpack(tmp_path / "one.zip", tmp_path / "again")
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("error", ["disk", "zip"])
def test_how_large_a_zip_may_be_is_told_only_where_that_was_the_matter(
    full: Path, tmp_path: Path, monkeypatch, error: str
):
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, os.strerror(28)) if error == "disk" else zipfile.LargeZipFile("too large")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", fail)
    with pytest.raises(RecordingError, match="cannot write .*(No space left|too large)") as caught:
        pack(full, tmp_path / "one.zip")
    assert ("has at most 4294967295 bytes" in caught.value.hint) == (error == "zip")
    assert not (tmp_path / "one.zip").exists()


def test_what_deflates_too_well_to_be_read_again_is_stored(full: Path, tmp_path: Path):
    (full / NETWORK).write_bytes(har() + b" " * 3_000_000)
    pack(full, tmp_path / "one.zip")
    unpack(tmp_path / "one.zip", tmp_path / "again")
    assert files(tmp_path / "again") == files(full)
    with zipfile.ZipFile(tmp_path / "one.zip") as packed:
        assert packed.getinfo("full/network.har").compress_type == zipfile.ZIP_STORED


def test_a_zip_that_no_reader_takes_is_not_written(full: Path, tmp_path: Path, monkeypatch):
    """Folders have no limit of all their bytes together; zip files have."""
    monkeypatch.setattr(archive, "MAX_INFLATED_BYTES", 1000)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(RecordingError, match="one.zip: more than 1000 bytes when unpacked") as no:
        pack(full, tmp_path / "one.zip")
    assert no.value.hint == "a recording that large stays a folder"
    assert sorted(tmp_path.iterdir()) == before


def test_a_name_that_only_looks_like_an_entry_is_left_out(full: Path, tmp_path: Path):
    (full / "metaXjson").write_text("mine")
    assert pack(full, tmp_path / "one.zip") == ["metaXjson"]


def _full(path: Path, data: bytes) -> None:
    raise OSError(28, os.strerror(28))


def test_a_damaged_picture_is_found_before_the_folder_appears(full: Path, tmp_path: Path):
    pack(full, tmp_path / "one.zip")
    data = (tmp_path / "one.zip").read_bytes()
    (tmp_path / "one.zip").write_bytes(data.replace(make_png()[-60:], bytes(60)))
    with pytest.raises(RecordingError, match="cannot be unpacked"):
        unpack(tmp_path / "one.zip", tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_a_zip_is_read_by_other_tools(full: Path, tmp_path: Path):
    pack(full, tmp_path / "one.zip")
    with zipfile.ZipFile(tmp_path / "one.zip") as packed:
        assert packed.testzip() is None
        packed.extractall(tmp_path / "out")
    assert read_recording(tmp_path / "out" / "full").meta == read_recording(full).meta
    assert oct((tmp_path / "out" / "full" / META).stat().st_mode)[-3:] in ("644", "600", "664")
