"""A salt put into a body that nobody parsed."""

from __future__ import annotations

import json

import pytest

from agentserve.core.errors import InvalidRequest
from agentserve.router.passthrough.salting import salted as pieces_of

SALT = "5a" * 16


def salted(body: bytes, salt: str) -> bytes:
    return b"".join(pieces_of(body, salt))


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b" { } \n",
        b'{"a": 1}',
        b'{"a": {"cache_salt_": 1}}',
        b'\r\n{"a": "}", "b": [{}]\t}\r\n',
        '{"text": "\u00fc\U0001f600"}'.encode(),
    ],
)
def test_it_is_the_last_key(body):
    out = salted(body, SALT)
    assert json.loads(out) == json.loads(body) | {"cache_salt": SALT}
    assert out.startswith(body.rstrip()[:-1].rstrip()), "what was there is as it was"


@pytest.mark.parametrize("own", ["mine", SALT, "", "\u00fc", '"quoted"'])
def test_a_clients_own_salt_parts_its_prompts_further(own):
    bodies = [json.dumps({"text": "x", "cache_salt": text}).encode() for text in (own, "other")]
    salts = {json.loads(salted(body, SALT))["cache_salt"] for body in bodies}
    assert len(salts) == 2
    assert own not in salts
    assert json.loads(salted(bodies[0], "6b" * 16))["cache_salt"] not in salts


def test_a_key_in_disguise_does_not_win():
    body = rb'{"text": "x", "cache\u005fsalt": "of somebody else"}'
    assert json.loads(salted(body, SALT))["cache_salt"] == SALT


@pytest.mark.parametrize(
    "body",
    [
        b"", b" ", b"{", b"}", b"[]", b'[{"text": "x"}]', b'"{}"', b"null", b"\xef\xbb\xbf{}",
        '{"a": 1}'.encode("utf-16"), '{"a": 1}'.encode("utf-16-be"), '{"a": 1}'.encode("utf-16-le"),
        '{"a": 1}'.encode("utf-32-be"),
    ],
)  # fmt: skip
def test_what_is_no_object_in_utf8_is_refused(body):
    with pytest.raises(InvalidRequest):
        salted(body, SALT)


@pytest.mark.parametrize(
    "body", [b'{"a": "x}', b'{"a": {"b": 1}', b'{"a": "x\\}', b'{"a": 1,}', b'{"a": "\\"}']
)
def test_no_broken_body_becomes_a_good_one(body):
    with pytest.raises(ValueError):
        json.loads(body)
    with pytest.raises(ValueError):
        json.loads(salted(body, SALT))
