import pytest
import torch
from safetensors.torch import load, save

from agentserve.engine.feature_cache.entry import check_embeddings, decode, encode

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", DTYPES)
def test_bit_for_bit(dtype: torch.dtype):
    tensor = torch.randn(16, 24).to(dtype)
    tensor[0, :3] = torch.tensor([float("nan"), float("-inf"), -0.0])
    read = decode(encode(tensor, "me"), "me")
    assert read.dtype == dtype
    assert torch.equal(read.view(torch.uint8), tensor.view(torch.uint8))


def test_it_is_a_safetensors_file():
    tensor = torch.randn(2, 3)
    assert torch.equal(load(encode(tensor, "me"))["embeddings"], tensor)


def test_every_truncation_is_noticed():
    data = encode(torch.randn(2, 3), "me")
    assert all(decode(data[:length], "me") is None for length in range(len(data)))
    assert decode(data + b"\0", "me") is None


def test_no_flipped_bit_gives_other_embeddings():
    tensor = torch.randn(2, 3)
    data = encode(tensor, "me")
    header = 8 + int.from_bytes(data[:8], "little")
    for position in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            read = decode(bytes(flipped), "me")
            assert read is None or (position < header and torch.equal(read, tensor))


def test_the_file_of_another_entry():
    assert decode(encode(torch.randn(2, 3), "me"), "you") is None


@pytest.mark.parametrize(
    "tensors",
    [
        {"embeddings": torch.zeros(2, 3)},
        {"embeddings": torch.zeros(2, 3), "sha256": torch.zeros(32, dtype=torch.uint8)},
        {"embeddings": torch.zeros(2, 3), "sha256": torch.zeros(0, dtype=torch.uint8)},
        {"embeddings": torch.zeros(6), "sha256": torch.zeros(32, dtype=torch.uint8)},
        {"embeddings": torch.zeros(0, 3), "sha256": torch.zeros(32, dtype=torch.uint8)},
        {"embeddings": torch.zeros(2, 3).double(), "sha256": torch.zeros(32, dtype=torch.uint8)},
        {"weight": torch.zeros(2, 3)},
    ],
)
def test_foreign_safetensors_files(tensors: dict[str, torch.Tensor]):
    assert decode(save(tensors), "me") is None


@pytest.mark.parametrize("data", [b"", b"\0" * 200, b"\xff" * 200, b"\x89PNG\r\n\x1a\n" * 20])
def test_files_that_are_no_safetensors(data: bytes):
    assert decode(data, "me") is None


@pytest.mark.parametrize(
    "tensor",
    [torch.zeros(6), torch.zeros(1, 2, 3), torch.zeros(0, 3), torch.zeros(2, 3).long()],
)
def test_what_are_no_embeddings(tensor: torch.Tensor):
    with pytest.raises(ValueError, match="embeddings are"):
        check_embeddings(tensor)
