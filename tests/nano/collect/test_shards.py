"""Shards appear whole or not at all, keep their numbers, and are claimed by one collector only."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentserve.nano.collect import Shards, read_shards
from agentserve.nano.collect.shards import ShardWriter, claim_shard


def write(folder: Path, first: int, *pngs: bytes) -> None:
    shard = ShardWriter(folder, "grid", first)
    for index, png in enumerate(pngs):
        shard.add({"seed": first + index, "goal": "näive"}, png)
    shard.finish(first + 10)


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    write(tmp_path, 10, b"one", b"three")
    write(tmp_path, 20, b"five")
    read = list(read_shards(tmp_path))
    assert [png for _, png in read] == [b"one", b"three", b"five"]
    assert read[1][0] == {"seed": 11, "goal": "näive", "png": [3, 5]}


def test_a_shard_in_the_making_is_not_seen(tmp_path: Path) -> None:
    shard = ShardWriter(tmp_path, "grid", 10)
    shard.add({"seed": 10}, b"one")
    assert list(read_shards(tmp_path)) == []
    path = shard.finish(20)
    assert path == tmp_path / "grid-0000000010-0000000020.jsonl"
    assert len(list(read_shards(tmp_path))) == 1
    assert sorted(file.suffix for file in tmp_path.iterdir()) == [".jsonl", ".pack"]


def test_screens_keep_their_numbers_when_more_come(tmp_path: Path) -> None:
    write(tmp_path, 50, b"fifty")
    with Shards(tmp_path) as shards:
        assert len(shards) == 1
        write(tmp_path, 10, b"ten", b"eleven")
        assert shards.refresh() == 2
        assert shards.refresh() == 0
        assert [shards.png(index) for index in range(3)] == [b"fifty", b"ten", b"eleven"]
        assert [shards.record(index)["seed"] for index in range(3)] == [50, 10, 11]


def test_an_empty_shard_leaves_nothing(tmp_path: Path) -> None:
    assert ShardWriter(tmp_path, "grid", 10).finish(20) is None
    assert list(tmp_path.iterdir()) == []


def test_a_pack_that_is_cut_off_is_told(tmp_path: Path) -> None:
    write(tmp_path, 10, b"one", b"two")
    (tmp_path / "grid-0000000010-0000000020.pack").write_bytes(b"onet")
    with Shards(tmp_path) as shards:
        assert shards.png(0) == b"one"
        with pytest.raises(OSError, match="cut off at screen 1"):
            shards.png(1)


def test_no_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Shards(tmp_path / "nowhere")


def test_a_block_is_claimed_once(tmp_path: Path) -> None:
    write(tmp_path, 110, b"one")  # seeds 110 … 119, of another block size
    first, seed = claim_shard(tmp_path / "new", "grid", 100, 20)
    assert seed == 100
    first.drop()
    shard, seed = claim_shard(tmp_path, "grid", 100, 8)
    assert seed == 100
    other, seed = claim_shard(tmp_path, "grid", 100, 8)
    assert seed == 124  # 108 and 116 meet what is there
    last, seed = claim_shard(tmp_path, "solo", 100, 8)
    assert seed == 100
    for each in (shard, other, last):
        each.drop()
