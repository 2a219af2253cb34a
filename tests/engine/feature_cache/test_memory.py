import torch

from agentserve.engine.feature_cache.memory import Held, MemoryTier


def held(num_bytes: int) -> Held:
    return Held(torch.zeros(1, num_bytes // 4), kept_at=0.0)


def test_the_longest_unused_goes_first():
    memory = MemoryTier(100)
    for key in "abc":
        memory.put(key, held(32))
    memory.get("a")
    memory.put("d", held(32))
    assert [key for key in "abcd" if memory.get(key)] == ["a", "c", "d"]
    assert memory.num_bytes == 96


def test_a_large_entry_pushes_out_several():
    memory = MemoryTier(100)
    for key in "abc":
        memory.put(key, held(32))
    memory.put("d", held(64))
    assert [key for key in "abcd" if memory.get(key)] == ["c", "d"]
    assert memory.num_bytes == 96


def test_an_entry_over_the_limit_pushes_out_nothing():
    memory = MemoryTier(100)
    memory.put("a", held(100))
    memory.put("b", held(104))
    assert memory.get("a")
    assert memory.get("b") is None


def test_the_same_key_again_counts_once():
    memory = MemoryTier(100)
    memory.put("a", held(32))
    memory.put("a", held(64))
    assert memory.num_bytes == 64


def test_without_room_nothing_is_held():
    memory = MemoryTier(0)
    memory.put("a", held(4))
    assert memory.get("a") is None
    assert memory.num_bytes == 0
