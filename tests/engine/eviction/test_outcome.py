"""The outcome of a request in its answer, and in no other's."""

from typing import Any

from agentserve.engine.eviction.outcome import KEY, add_outcome


def meta_of(index: int, customized: dict[str, Any]) -> dict[str, Any]:
    meta: dict[str, Any] = {"id": "r"}

    def original(manager, meta_info, state, customized_info, index, finish_reason) -> None:
        meta_info.update({key: values[index] for key, values in customized_info.items()})

    add_outcome(original, object(), meta, object(), customized, index, None)
    return meta


def test_it_comes_once_with_the_request_it_is_of():
    outcome = {"freed": 3}
    batch = {KEY: [[None, None], [outcome, outcome]], "other": [["x"], ["y"]]}
    assert meta_of(0, batch) == {"id": "r", "other": ["x"]}
    assert meta_of(1, batch) == {"id": "r", "other": ["y"], KEY: outcome}
    assert meta_of(0, {}) == {"id": "r"}
