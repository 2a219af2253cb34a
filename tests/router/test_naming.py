from __future__ import annotations

import json

import pytest

from agentserve.core.errors import InvalidRequest
from agentserve.router.passthrough.naming import session_name

from .rig import running_rig


def name(body: object = None, **headers: str) -> str | None:
    sent = {key.replace("_", "-"): value for key, value in headers.items()}
    return session_name(sent, lambda: b"" if body is None else json.dumps(body).encode())


def test_the_header_goes_before_all():
    body = {"user": "u", "prompt_cache_key": "k"}
    assert name(body, x_session_id="s_1", x_smg_routing_key="r") == "s_1"
    by_key = name(body, x_smg_routing_key="r")
    assert by_key is not None and by_key.startswith("routing-key:")
    assert name(body) == name({"prompt_cache_key": "k", "user": "other"})
    assert name({"user": "u"}) != name({"user": "v"})
    assert name({"messages": []}) is None


def test_names_are_made_of_any_text():
    odd = 'with "quotes" \\ and \u20ac' + "x" * 2000
    assert name({"user": odd}) == name({"user": odd}) != name({"user": odd + "y"})
    assert name(x_smg_routing_key="../../etc") == name(x_smg_routing_key="../../etc")
    with pytest.raises(InvalidRequest, match="X-Session-Id"):
        name(x_session_id="a b")


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "user", "content": "hi"}]},
        {"text": 'say "user": "me" twice'},
        {"user": 7},
        {"user": None},
        {"user": "x" * 5000},
    ],
)
def test_what_is_no_name(body):
    assert name(body) is None


def test_a_body_that_is_no_json_has_no_name():
    assert session_name({}, lambda: b'"user": "cut') is None
    assert session_name({}, lambda: b'"user" : "\\q"') is None


async def test_requests_of_a_name_stay_together(tmp_path):
    async with running_rig(tmp_path) as rig:
        for sent in (
            [({}, {"user": "u"})] * 6,
            [({"X-SMG-Routing-Key": "k"}, {"user": str(n)}) for n in range(6)],
        ):
            served = set()
            for headers, fields in sent:
                answer = await rig.http.post(
                    "/generate", json={"text": "t", **fields}, headers=headers
                )
                served.add(answer.headers["x-agentserve-worker"])
            assert len(served) == 1
