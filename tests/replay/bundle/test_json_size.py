"""What a JSON text would be in memory is told before it is parsed."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from replay.bundle.corpus_contents import har

from agentserve.core.errors import RecordingError
from agentserve.replay.bundle import network
from agentserve.replay.bundle.json_size import weight_of
from agentserve.replay.bundle.network import parse_har

JSON = st.recursive(
    st.none() | st.integers() | st.text(alphabet='a"\\[]{},:é\n', max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=30,
)


def values(value: Any) -> int:
    """How many there are, objects and lists by four."""
    if isinstance(value, dict | list):
        inner = list(value.values()) if isinstance(value, dict) else value
        return 4 + max(len(inner) - 1, 0) + sum(values(one) for one in inner)
    return 0


@given(JSON, st.sampled_from([None, 1]))
def test_values_are_counted_and_texts_are_not(value: Any, indent: int | None) -> None:
    for ascii_only in (True, False):
        text = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
        weight = weight_of(text, 10_000)
        assert values(value) <= weight <= values(value) + 2
        # half a text is a beginning: the parser has made no more of it
        assert weight_of(text[: len(text) // 2], 10_000) <= weight + 2


@pytest.mark.parametrize(
    "data",
    [b'"' * 4_000_001, b'\\"' * 2_000_000, b'"' + b'\\"' * 2_000_000, b" " * 4_000_000,
     b'["' + b"{," * 2_000_000 + b'"]', b'"\\', b":" * 4_000_000],
    ids="quotes escaped open spaces text cut colons".split(),
)  # fmt: skip
def test_no_text_is_looked_at_twice(data: bytes) -> None:
    began = time.process_time()
    weight_of(data, 10**9)
    assert time.process_time() - began < 5


def test_texts_in_a_har_may_be_full_of_brackets() -> None:
    parse_har(har(text="[],{}" * 2_000_000))


def test_a_har_that_would_fill_the_memory_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "MAX_NETWORK_WEIGHT", 10_000)
    monkeypatch.setattr(network, "from_json", lambda *_, **__: pytest.fail("it is parsed"))
    wide = har().replace(b'"entries": [', b'"entries": [' + b"[]," * 1_000_000)
    with pytest.raises(RecordingError, match="too many values in it"):
        parse_har(wide)
