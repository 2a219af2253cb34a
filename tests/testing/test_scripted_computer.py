from __future__ import annotations

import pytest

from agentserve.core.actions import Click
from agentserve.core.sessions import Outcome
from agentserve.testing.computer import ScriptedComputer, UnexpectedCall

HERE = Click(x=3, y=4)


async def test_screens_and_outcomes_are_given_in_turn() -> None:
    failed = Outcome(status="failed", message="no")
    computer = ScriptedComputer([b"a", b"b"], outcomes=[failed])
    assert await computer.screenshot() == b"a"
    assert await computer.perform(HERE) == failed
    assert await computer.screenshot() == b"b"
    assert await computer.perform(HERE) == Outcome(status="ok")
    assert computer.performed == [HERE, HERE]
    computer.assert_complete()


async def test_what_the_script_does_not_have_is_noticed() -> None:
    computer = ScriptedComputer([b"a", b"b"])
    with pytest.raises(UnexpectedCall, match="without looking"):
        await computer.perform(HERE)
    await computer.screenshot()
    with pytest.raises(AssertionError, match="1 screens"):
        computer.assert_complete()
    await computer.screenshot()
    computer.assert_complete()
    with pytest.raises(UnexpectedCall, match="no screen left"):
        await computer.screenshot()
