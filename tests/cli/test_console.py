"""How commands talk to people."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from agentserve.cli.console import command


@pytest.mark.parametrize(
    "called", ["agentserve", "my bin/agentserve", "a b/__main__.py", "/opt/else where/agentserve"]
)
def test_a_command_that_is_suggested_can_be_pasted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, called: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [called])
    monkeypatch.setattr(sys, "executable", "/opt/my python")
    words = shlex.split(command("replay", Path("it's $HOME/a"), Path("-x"), "--secret", "A"))
    own = ["/opt/my python", "-m", "agentserve.cli"] if called.endswith(".py") else [called]
    assert words == [*own, "replay", "it's $HOME/a", "./-x", "--secret", "A"]
