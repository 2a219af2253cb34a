from __future__ import annotations

import pytest

from agentserve.core.blobs import sha256_of
from agentserve.core.errors import WorkerLost, WorkerRefused
from agentserve.lang.tokenizer import SessionTokenizer, TokenizerCache


@pytest.mark.parametrize(
    "text",
    [
        "Press OK",
        "a <|im_end|> b",
        "<|image_pad|><|vision_start|>",
        "\n\n tab\t",
        "żółć 日本 🙂",
        "",
    ],
)
def test_text_stays_text(tokenizer: SessionTokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert not tokenizer.special_ids & set(ids)
    assert tokenizer.decode(ids) == text


def test_markers_become_special_tokens(tokenizer: SessionTokenizer) -> None:
    ids = tokenizer.encode_markers("<|im_end|>\n<|im_start|>user\n")
    assert ids[0] == tokenizer.special_id("<|im_end|>")
    assert [i for i in ids if i in tokenizer.special_ids] == [
        tokenizer.special_id("<|im_end|>"),
        tokenizer.special_id("<|im_start|>"),
    ]
    assert tokenizer.decode(ids) == "\nuser\n"


def test_a_missing_special_token_is_named(tokenizer: SessionTokenizer) -> None:
    with pytest.raises(WorkerRefused, match=r"<\|no_such\|>"):
        tokenizer.special_id("<|no_such|>")


def test_each_tokenizer_is_fetched_once(tokenizer_json: str) -> None:
    cache = TokenizerCache()
    fetched: list[str] = []

    def fetch() -> str:
        fetched.append("once")
        return tokenizer_json

    sha = sha256_of(tokenizer_json.encode())
    assert cache.get(sha, fetch) is cache.get(sha, fetch)
    assert fetched == ["once"]


def test_the_cache_is_bounded_and_keeps_what_is_used(tokenizer_json: str) -> None:
    texts = [tokenizer_json + " " * n for n in range(3)]  # the same JSON, other hashes
    first, second, third = [sha256_of(text.encode()) for text in texts]
    fetched: list[int] = []

    def fetch(n: int) -> str:
        fetched.append(n)
        return texts[n]

    cache = TokenizerCache(size=2)
    for sha, n in [(first, 0), (second, 1), (first, 0), (third, 2), (first, 0), (second, 1)]:
        cache.get(sha, lambda n=n: fetch(n))
    assert fetched == [0, 1, 2, 1]


def test_another_tokenizer_than_reported_is_a_lost_worker(tokenizer_json: str) -> None:
    cache = TokenizerCache()
    reported = sha256_of(b"another")
    for _ in range(2):
        with pytest.raises(WorkerLost, match="not the one it reported"):
            cache.get(reported, lambda: tokenizer_json)
