from __future__ import annotations

import errno
import logging
import multiprocessing
import os
import threading
import time
from pathlib import Path

import pytest
import torch

from agentserve.engine.feature_cache import FeatureCache, cache, files, folder

MODEL = "nano rev-1 bfloat16"
BYTES = 16 * 32 * 4


def embeddings(seed: int) -> torch.Tensor:
    """[16, 32] fp32, BYTES bytes."""
    return torch.randn(16, 32, generator=torch.Generator().manual_seed(seed))


def warm_folder(path: Path, num: int = 1) -> list[Path]:
    """A folder with ``num`` entries "0", "1", … and the paths of their files."""
    first = FeatureCache(0, path, 1 << 20, MODEL)
    for number in range(num):
        first.put(str(number), embeddings(number))
    assert first.close()
    found = list(path.rglob("*.safetensors"))
    assert len(found) == num
    return found


def wait_for_file(folder: Path) -> Path:
    """The first file that the background has written."""
    while not (found := list(folder.rglob("*.safetensors"))):
        time.sleep(0.01)
    return found[0]


def test_memory_alone():
    features = FeatureCache(2 * BYTES, None, 0, MODEL)
    assert features.get("0") is None
    for number in range(3):
        features.put(str(number), embeddings(number))
    assert features.get("0") is None
    assert torch.equal(features.get("1"), embeddings(1))
    assert torch.equal(features.get("2"), embeddings(2))
    stats = features.stats()
    assert (stats.memory_hits, stats.folder_hits, stats.misses) == (2, 0, 2)
    assert (stats.memory_bytes, stats.writing) == (2 * BYTES, False)
    assert features.close()


def test_what_is_put_is_copied():
    batch = embeddings(0)
    features = FeatureCache(1 << 20, None, 0, MODEL)
    features.put("columns", batch[:, :8])
    features.put("rows", batch[:4])
    expected = batch[:4].clone()
    batch.zero_()
    read = features.get("rows")
    assert torch.equal(read, expected)
    assert read.untyped_storage().nbytes() == read.nbytes
    assert features.get("columns").is_contiguous()


def test_a_restart_finds_the_folder_warm(tmp_path: Path):
    warm_folder(tmp_path, 3)
    features = FeatureCache(1 << 20, tmp_path, 1 << 20, MODEL)
    for _ in range(2):
        for number in range(3):
            assert torch.equal(features.get(str(number)), embeddings(number))
    assert features.close()
    stats = features.stats()
    assert (stats.folder_hits, stats.memory_hits, stats.misses) == (3, 3, 0)
    assert stats.folder_bytes == sum(p.stat().st_size for p in tmp_path.rglob("*.safetensors"))
    assert stats.writing


def test_another_model_does_not_see_them(tmp_path: Path):
    (path,) = warm_folder(tmp_path)
    other = FeatureCache(0, tmp_path, 1 << 20, "nano rev-2 bfloat16")
    assert other.get("0") is None
    other.put("0", embeddings(7))
    assert other.close()
    # nor when its file is put where the other's was
    (others,) = set(tmp_path.rglob("*.safetensors")) - {path}
    os.replace(others, path)
    features = FeatureCache(0, tmp_path, 1 << 20, MODEL)
    assert features.get("0") is None
    assert features.stats().damaged == 1
    assert features.close()


def test_a_key_never_is_a_path(tmp_path: Path):
    features = FeatureCache(0, tmp_path / "cache", 1 << 20, MODEL)
    for key in ("../../outside", "/etc/passwd", "a/b", "..", ""):
        features.put(key, embeddings(1))
    assert features.close()
    assert len(list((tmp_path / "cache").rglob("*.safetensors"))) == 5
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]
    assert torch.equal(features.get("../../outside"), embeddings(1))


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def flip_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def turn_into_link(path: Path) -> None:
    path.rename(path.with_suffix(".elsewhere"))
    path.symlink_to(path.with_suffix(".elsewhere"))


@pytest.mark.parametrize("damage", [truncate, empty, flip_bit, turn_into_link])
def test_a_damaged_file_is_a_miss_and_is_removed(tmp_path: Path, damage):
    (path,) = warm_folder(tmp_path)
    damage(path)
    features = FeatureCache(1 << 20, tmp_path, 1 << 20, MODEL)
    assert features.get("0") is None
    assert not path.exists()
    assert (features.stats().damaged, features.stats().misses) == (1, 1)
    features.put("0", embeddings(0))
    assert features.close()
    again = FeatureCache(0, tmp_path, 1 << 20, MODEL)
    assert torch.equal(again.get("0"), embeddings(0))
    assert again.close()


def test_what_is_used_from_memory_stays_in_the_folder(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(cache, "KEEP_S", 0.0)
    features = FeatureCache(1 << 20, tmp_path, 1 << 20, MODEL)
    features.put("0", embeddings(0))
    path = wait_for_file(tmp_path)
    os.utime(path, (1, 1))
    assert features.get("0") is not None
    features.put("1", embeddings(1))
    assert features.close()
    assert path.stat().st_mtime > 1


def test_what_the_folder_lost_is_written_again(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(cache, "KEEP_S", 0.0)
    features = FeatureCache(1 << 20, tmp_path, 1 << 20, MODEL)
    features.put("0", embeddings(0))
    path = wait_for_file(tmp_path)
    path.unlink()
    assert features.get("0") is not None
    assert features.close()
    assert path.exists()


def test_memory_hits_do_not_bother_the_folder_every_time(tmp_path: Path, monkeypatch):
    warm_folder(tmp_path)
    touched = []
    monkeypatch.setattr(files.FileStore, "touch", lambda self, name: touched.append(name) or True)
    features = FeatureCache(1 << 20, tmp_path, 1 << 20, MODEL)
    for _ in range(5):
        assert features.get("0") is not None
    assert features.close()
    assert len(touched) == 1


def test_a_full_disk_ends_writing_with_one_warning(tmp_path: Path, monkeypatch, caplog):
    warm_folder(tmp_path)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    features = FeatureCache(1 << 20, tmp_path, 1 << 20, MODEL)
    monkeypatch.setattr(files.os, "replace", full)
    with caplog.at_level(logging.WARNING):
        for number in range(1, 4):
            features.put(str(number), embeddings(number))
        assert features.close()
    (record,) = caplog.records
    assert "No space left" in record.getMessage()
    assert str(tmp_path) in record.getMessage()
    assert not features.stats().writing
    for number in range(4):  # "0" from the folder, the others from memory
        assert torch.equal(features.get(str(number)), embeddings(number))
    assert list((tmp_path / "features-v1" / "incoming").iterdir()) == []
    features.put("9", embeddings(9))
    assert features.stats().dropped >= 1


def test_a_folder_that_cannot_be_made(tmp_path: Path, caplog):
    (tmp_path / "file").write_text("in the way")
    with caplog.at_level(logging.WARNING):
        features = FeatureCache(1 << 20, tmp_path / "file" / "cache", 1 << 20, MODEL)
        assert features.get("0") is None
        features.put("0", embeddings(0))
        assert features.get("0") is not None
        assert features.close()
    assert len(caplog.records) == 1
    assert not features.stats().writing


def test_a_slow_disk_drops_and_does_not_wait(tmp_path: Path, monkeypatch):
    goon = threading.Event()
    monkeypatch.setattr(folder, "BACKLOG_BYTES", 3 * BYTES)
    monkeypatch.setattr(files.FileStore, "open", lambda self: goon.wait(60))
    features = FeatureCache(1 << 20, tmp_path, 1 << 20, MODEL)
    for number in range(8):
        features.put(str(number), embeddings(number))
    assert features.stats().dropped == 5
    goon.set()
    assert all(features.get(str(number)) is not None for number in range(8))
    assert features.close()


def test_only_embeddings(tmp_path: Path):
    features = FeatureCache(1 << 20, None, 0, MODEL)
    with pytest.raises(ValueError, match=r"not \[4\] in torch.int64"):
        features.put("0", torch.zeros(4, dtype=torch.long))


def test_threads_at_once(tmp_path: Path):
    features = FeatureCache(4 * BYTES, tmp_path, 1 << 20, MODEL)
    wrong = []

    def work(offset: int) -> None:
        for step in range(60):
            number = (step + offset) % 12
            read = features.get(str(number))
            if read is None:
                features.put(str(number), embeddings(number))
            elif not torch.equal(read, embeddings(number)):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(offset,)) for offset in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert features.close()
    stats = features.stats()
    assert wrong == []
    assert stats.memory_hits + stats.folder_hits + stats.misses == 240
    assert stats.memory_bytes == 4 * BYTES
    assert stats.damaged == 0


def _write_all(path: Path, barrier, answers) -> None:
    features = FeatureCache(0, path, 1 << 20, MODEL)
    barrier.wait(240)
    for number in range(100):
        features.put(str(number), embeddings(number))
    answers.put((features.close(), features.stats().dropped, features.stats().writing))


def test_two_processes_write_the_same_entries_at_once(tmp_path: Path):
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(2), context.Queue()
    other = context.Process(target=_write_all, args=(tmp_path, barrier, answers))
    other.start()
    _write_all(tmp_path, barrier, answers)
    assert [answers.get(timeout=240) for _ in range(2)] == [(True, 0, True)] * 2
    other.join(60)
    assert other.exitcode == 0
    features = FeatureCache(0, tmp_path, 1 << 20, MODEL)
    for number in range(100):
        assert torch.equal(features.get(str(number)), embeddings(number))
    assert features.close()
    stats = features.stats()
    assert (stats.folder_hits, stats.damaged) == (100, 0)
    assert stats.folder_bytes == sum(p.stat().st_size for p in tmp_path.rglob("*.safetensors"))
