"""Bytes in a folder that several processes use: no torch here, so that processes start quickly."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentserve.engine.feature_cache.files import STALE_S, FileStore
from agentserve.engine.feature_cache.ledger import locked

MODEL = "0" * 64


def name(text: object) -> str:
    return hashlib.sha256(str(text).encode()).hexdigest()


def store(folder: Path, limit: int = 1000, model: str = MODEL) -> FileStore:
    files = FileStore(folder, model, limit)
    files.open()
    return files


def path_of(folder: Path, text: object) -> Path:
    return folder / "features-v1" / MODEL / name(text)[:2] / f"{name(text)}.safetensors"


def total(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.safetensors"))


def in_ledger(folder: Path) -> int | None:
    with locked(folder / "features-v1" / "ledger") as ledger:
        return ledger.read()


def left_over(folder: Path) -> list[Path]:
    return list((folder / "features-v1" / "incoming").iterdir())


def test_a_file_is_there_in_one_step_for_its_owner_only(tmp_path: Path):
    files = store(tmp_path / "new" / "folder")
    assert files.read(name("a")) is None
    files.write(name("a"), b"content")
    assert files.read(name("a")) == b"content"
    assert left_over(tmp_path / "new" / "folder") == []
    assert (tmp_path / "new" / "folder" / "features-v1").stat().st_mode & 0o777 == 0o700
    assert path_of(tmp_path / "new" / "folder", "a").stat().st_mode & 0o777 == 0o600


def test_the_longest_unused_files_go_first(tmp_path: Path):
    files = store(tmp_path)
    for number in range(10):
        files.write(name(number), b"x" * 100)
        os.utime(path_of(tmp_path, number), (number, number))
    assert total(tmp_path) == 1000
    assert files.touch(name(0))
    files.write(name("new"), b"x" * 100)
    there = [key for key in [*range(10), "new"] if files.read(name(key))]
    assert there == [0, 2, 3, 4, 5, 6, 7, 8, 9, "new"]
    assert in_ledger(tmp_path) == total(tmp_path) == files.num_bytes == 1000


def test_what_was_used_after_it_was_chosen_to_go_stays(tmp_path: Path):
    files = store(tmp_path, limit=3200)
    for number in range(32):
        files.write(name(number), b"x" * 100)
        os.utime(path_of(tmp_path, number), (number, number))
    files.write(name("a"), b"x" * 100)  # 0 goes; 1 to 4 were chosen with it
    assert files.touch(name(1))
    path_of(tmp_path, 2).unlink()  # as another worker would; the ledger still has its bytes
    files.write(name("b"), b"x" * 100)
    assert [n for n in range(6) if files.read(name(n))] == [1, 4, 5]


def test_a_long_run_removes_in_the_order_of_use(tmp_path: Path):
    files = store(tmp_path, limit=3200)
    for number in range(150):
        files.write(name(number), b"x" * 100)
        os.utime(path_of(tmp_path, number), (number, number))
    assert [n for n in range(150) if files.read(name(n))] == list(range(118, 150))
    assert in_ledger(tmp_path) == total(tmp_path) == 3200


def test_the_limit_holds_for_all_models_together(tmp_path: Path):
    old, new = store(tmp_path, model="1" * 64), store(tmp_path)
    for number in range(9):
        old.write(name(number), b"x" * 100)
    for number in range(9):
        new.write(name(number), b"x" * 100)
    assert total(tmp_path) <= 1000
    assert all(new.read(name(number)) for number in range(9))


def test_an_old_models_folders_go_with_their_files(tmp_path: Path):
    store(tmp_path, model="1" * 64).write(name("a"), b"x" * 100)
    files = store(tmp_path)
    files.write(name("a"), b"x" * 1000)
    files.open()  # the folders of its files
    files.open()  # its own
    assert not (tmp_path / "features-v1" / ("1" * 64)).exists()
    assert files.read(name("a")) == b"x" * 1000


def test_a_file_over_the_limit_pushes_out_nothing(tmp_path: Path):
    files = store(tmp_path)
    files.write(name("a"), b"x" * 900)
    files.write(name("b"), b"x" * 1001)
    assert files.read(name("a"))
    assert files.read(name("b")) is None


def test_the_same_file_again_counts_once(tmp_path: Path):
    files = store(tmp_path)
    for _ in range(5):
        files.write(name("a"), b"x" * 300)
    assert in_ledger(tmp_path) == 300
    assert left_over(tmp_path) == []


@pytest.mark.parametrize("damage", [b"", b"-1", b"x" * 20, b"0" * 50])
def test_a_damaged_ledger_is_counted_anew(tmp_path: Path, damage: bytes):
    files = store(tmp_path)
    files.write(name("a"), b"x" * 300)
    (tmp_path / "features-v1" / "ledger").write_bytes(damage)
    files.write(name("b"), b"x" * 300)
    assert in_ledger(tmp_path) == 600


def test_a_start_counts_and_keeps_to_a_smaller_limit(tmp_path: Path):
    files = store(tmp_path)
    for number in range(10):
        files.write(name(number), b"x" * 100)
        os.utime(path_of(tmp_path, number), (number, number))
    path_of(tmp_path, 9).unlink()
    smaller = store(tmp_path, limit=450)
    assert smaller.num_bytes == in_ledger(tmp_path) == total(tmp_path) == 400
    assert [n for n in range(10) if smaller.read(name(n))] == [5, 6, 7, 8]


def test_what_a_dead_writer_left_goes_and_what_a_live_one_writes_stays(tmp_path: Path):
    store(tmp_path)
    dead, live = (tmp_path / "features-v1" / "incoming" / name for name in ("dead", "live"))
    dead.write_bytes(b"half")
    live.write_bytes(b"half")
    long_ago = time.time() - STALE_S - 1
    os.utime(dead, (long_ago, long_ago))
    store(tmp_path)
    assert left_over(tmp_path) == [live]


def test_files_that_are_not_ours_are_neither_counted_nor_removed(tmp_path: Path):
    theirs = [
        tmp_path / "letter.txt",
        tmp_path / "features-v1" / "notes.safetensors",
        tmp_path / "features-v1" / MODEL / "00" / "model.safetensors",
        tmp_path / "features-v1" / "model" / "00" / f"{name('a')}.safetensors",
    ]
    for path in theirs:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 5000)
    files = store(tmp_path)
    assert files.num_bytes == 0
    for number in range(20):
        files.write(name(number), b"x" * 100)
    assert all(path.stat().st_size == 5000 for path in theirs)


def test_what_is_in_the_way_of_a_file_is_no_error(tmp_path: Path):
    files = store(tmp_path)
    for text in ("folder", "link", "pipe", "huge"):
        path_of(tmp_path, text).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "secret").write_bytes(b"secret")
    path_of(tmp_path, "folder").mkdir()
    path_of(tmp_path, "link").symlink_to(tmp_path / "secret")
    os.mkfifo(path_of(tmp_path, "pipe"))
    path_of(tmp_path, "huge").write_bytes(b"x" * 1001)
    for text in ("folder", "link", "pipe", "huge"):
        assert files.read(name(text)) == b""
        files.write(name(text), b"x" * 100)
        files.remove(name(text))
    assert sorted(path.name for path in path_of(tmp_path, "folder").parent.iterdir()) == [
        path_of(tmp_path, "folder").name
    ]
    assert (tmp_path / "secret").read_bytes() == b"secret"
    for number in range(20):
        files.write(name(number), b"x" * 100)
    assert total(tmp_path) <= 1000 + path_of(tmp_path, "folder").stat().st_size


WRITER = """
import hashlib, sys
from pathlib import Path
from agentserve.engine.feature_cache.files import FileStore
folder, first, last = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
files = FileStore(folder, "0" * 64, 40_000)
print("ready", flush=True)
sys.stdin.readline()
files.open()
wrong = 0
for number in range(first, last):
    name = hashlib.sha256(str(number).encode()).hexdigest()
    files.write(name, name.encode() * (1 + number % 30))
    seen = files.read(name)
    wrong += seen is not None and seen != name.encode() * (1 + number % 30)
print(wrong)
"""


def test_three_processes_write_and_evict_at_once(tmp_path: Path):
    # The ranges overlap: some files are written by two processes at the same time.
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(first), str(first + 400)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for first in (0, 0, 200)
    ]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        out, _ = writer.communicate(timeout=240)
        assert (writer.returncode, out) == (0, "0\n")
    assert 35_000 < total(tmp_path) <= 40_000
    assert in_ledger(tmp_path) == total(tmp_path)
    assert left_over(tmp_path) == []
    for path in tmp_path.rglob("*.safetensors"):
        assert path.read_bytes().replace(path.stem.encode(), b"") == b""
