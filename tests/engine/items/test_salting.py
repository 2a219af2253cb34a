"""A request with a cache salt finds nothing of another's, in a real worker: KV or embeddings."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from agentserve.engine.items.salting import salted_content, salted_hash

from .asking import Worker
from .pictures import BEGIN, END, IMAGE, item, plain, screen
from .test_engine import HEAD, TAIL

ONE, TWO = "1" * 32, "2" * 32
PROMPT = f"{HEAD}{BEGIN}{IMAGE}{END}{TAIL}"


def test_without_a_salt_nothing_changes():
    assert salted_hash(5, "") == 5
    assert salted_content("ab", "") == "ab"
    assert len({salted_hash(5, ONE), salted_hash(5, TWO), salted_hash(6, ONE), 5}) == 4
    assert len({salted_content("ab", ONE), salted_content("ab", TWO), "ab"}) == 3


def told(worker: Worker, picture: str, salt: str | None, **fields: Any) -> dict[str, Any]:
    salted = {"cache_salt": salt} if salt else {}
    response = worker.post(PROMPT, [picture], **salted, **fields)
    response.raise_for_status()
    return response.json()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", [plain, item], ids=["image", "item"])
def test_a_prefix_is_found_by_its_own_salt_only(worker: Worker, kind):
    worker.flush()
    picture = kind(screen(41))
    first = told(worker, picture, ONE)
    length = first["meta_info"]["prompt_tokens"]
    assert first["meta_info"]["cached_tokens"] == 0
    assert told(worker, picture, TWO)["meta_info"]["cached_tokens"] == 0
    assert told(worker, picture, None)["meta_info"]["cached_tokens"] == 0
    for salt in (ONE, TWO, None):
        again = told(worker, picture, salt)
        assert again["meta_info"]["cached_tokens"] == length - 1
        assert again["text"] == first["text"], "the same answer, whoever asks"


@pytest.mark.timeout(600)
def test_a_part_of_a_screen_is_encoded_for_each_salt(worker: Worker):
    part = item(screen(42), (0, 0, 224, 140))
    sources = [
        told(worker, part, salt)["meta_info"]["agentserve"]["sources"][0]
        for salt in (ONE, TWO, None, ONE)
    ]
    assert sources == ["encoder", "encoder", "encoder", "radix"]
    worker.flush()
    after = told(worker, part, ONE)["meta_info"]["agentserve"]["sources"][0]
    assert after in ("device", "memory"), "what was encoded is found again by who had it encoded"


@pytest.mark.timeout(600)
def test_no_picture_is_put_under_anothers_hash(worker: Worker):
    """SGLang takes an image's hash from the client: the embeddings must be the picture's own."""
    worker.flush()
    good = told(worker, plain(screen(43)), ONE, return_logprob=True, mm_hashes=["ab" * 16])
    for salt, picture in ((TWO, screen(44)), (ONE, screen(43))):
        told(worker, plain(picture), salt, mm_hashes=["ab" * 16])
    worker.flush()
    own = told(worker, plain(screen(43)), ONE, return_logprob=True, mm_hashes=["ab" * 16])
    assert own["meta_info"]["output_token_logprobs"] == good["meta_info"]["output_token_logprobs"]


@pytest.mark.timeout(600)
def test_of_two_salts_in_a_body_the_last_one_counts(worker: Worker):
    """What the router's salt relies on: see router.salting."""
    worker.flush()
    told(worker, plain(screen(45)), ONE)
    body = worker.client.build_request(
        "POST", "/generate", json=worker.body(PROMPT, [plain(screen(45))])
    )
    text = body.read().rstrip()
    for salts, found in (((ONE, TWO), False), ((TWO, ONE), True)):
        doubled = text[:-1] + b"".join(b', "cache_salt": "%s"' % s.encode() for s in salts) + b"}"
        answer = worker.client.post(
            "/generate", content=doubled, headers={"content-type": "application/json"}
        )
        assert (answer.json()["meta_info"]["cached_tokens"] > 0) is found


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9/x.png", "/etc/hostname", "file:///etc/hostname"]
)
def test_a_worker_neither_fetches_nor_opens(worker: Worker, url: str):
    refused = worker.post(PROMPT, [url])
    assert refused.status_code == 400
    assert "image_data" in refused.text
    chat = {
        "model": "x",
        "messages": [
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}
        ],
    }
    refused = worker.client.post("/v1/chat/completions", json=chat)
    assert refused.status_code == 400
    assert "image_data" in refused.text


def test_bytes_in_base64_are_taken(worker: Worker):
    png = plain(screen(46)).partition(",")[2]
    assert base64.b64decode(png).startswith(b"\x89PNG")
    assert told(worker, png, ONE)["text"] is not None
