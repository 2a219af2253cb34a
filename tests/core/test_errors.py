from __future__ import annotations

import re

import pytest

from agentserve.core import errors
from agentserve.core.errors import AgentServeError, StaleEpoch, by_code, from_body

CLASSES = by_code()


def test_codes_are_unique():
    def leaves(cls: type[AgentServeError]) -> int:
        return 1 + sum(leaves(child) for child in cls.__subclasses__())

    assert len(CLASSES) == leaves(AgentServeError)


def test_the_docstring_shows_the_whole_tree_with_its_statuses():
    shown = dict(re.findall(r"── (\w+) +(\d{3}|-)? ", errors.__doc__))
    for cls in CLASSES.values():
        if cls is AgentServeError:
            continue
        assert cls.__name__ in shown
        if shown[cls.__name__].isdigit():
            assert int(shown[cls.__name__]) == cls.status


@pytest.mark.parametrize("cls", list(CLASSES.values()), ids=list(CLASSES))
def test_a_body_comes_back_as_the_same_error(cls):
    body = cls("what", hint="do", details={"n": 1}).body(session_id="s", request_id="r")
    assert (body["session_id"], body["request_id"]) == ("s", "r")
    error = from_body(body, retry_after=3)
    assert type(error) is cls
    assert (error.message, error.hint, error.details) == ("what", "do", {"n": 1})
    assert error.retry_after == 3


def test_unknown_codes_and_poor_bodies_become_the_base():
    error = from_body({"code": "from_the_future", "message": "m", "details": None})
    assert type(error) is AgentServeError
    assert (error.message, error.details) == ("m", {})
    assert from_body({}).message == "the router gave no message"


def test_bad_requests_are_the_callers():
    assert issubclass(StaleEpoch, errors.BadRequest)
    for cls in errors.BadRequest.__subclasses__():
        assert 400 <= cls.status < 500
