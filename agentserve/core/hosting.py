"""The wire form between the router and its program hosts (HTTP over a Unix socket).

A host is stateless: a turn's request holds everything the program needs, its answer everything
the session keeps. The pictures themselves are files, which the host reads: new ones in a folder
that the turn names, all others in the router's blob folder.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from agentserve.core.model import Wire
from agentserve.core.plans import Piece, Plan
from agentserve.core.pruning import Compression
from agentserve.core.screens import ScreenSpace
from agentserve.core.sessions import CallUsage, Outcome


class ProgramInfo(Wire):
    """One registered program: a file with ``begin`` and ``turn``."""

    name: str
    doc: str = ""
    sha256: str
    """Of the program's source: recordings name it."""


class ProgramList(Wire):
    programs: list[ProgramInfo]
    broken: dict[str, str] = Field(default_factory=dict)
    """File name to the reason why it is not a program."""


class HostTurn(Wire):
    """Run one turn of a program: ``POST /turns`` on the host."""

    session_id: str
    tenant: str = ""
    """Whose blobs the pictures are."""
    request_id: str
    program: str
    task: str
    instruction: str
    outcome: Outcome | None
    first: bool
    """True when the session has no turn yet: the program's ``begin`` runs before ``turn``."""
    turn: int
    """Counted from 0."""
    plan: Plan
    handed: Path | None = None
    """Folder of pictures of the plan that may not be stored yet (core.blobs.read_picture)."""
    space: ScreenSpace
    family: str
    worker_url: str
    tokenizer_sha256: str
    timeout_s: float
    max_turn_tokens: int
    """Most tokens one generation call may add."""
    cache_salt: str = ""
    """Tells SGLang apart whose prompts these are; empty for nobody's."""
    compression: Compression = Compression()
    """How the worker chooses from the items of the plan that are to be thinned."""
    worker_id: str | None = None
    """For the host's log."""


class HostWarming(Wire):
    """Have a worker compute what a session's next prompt begins with: ``POST /warmings`` on the
    host. Answered with the call's CallUsage."""

    session_id: str
    tenant: str = ""
    """Whose blobs the pictures are."""
    request_id: str
    pieces: list[Piece]
    family: str
    worker_url: str
    tokenizer_sha256: str
    timeout_s: float
    worker_id: str | None = None
    """For the host's log."""
    cache_salt: str = ""


class HostAnswer(Wire):
    """What a turn came to."""

    pieces: list[Piece]
    """New pieces behind plan.prior, in order: program text, the screen, generated text."""
    text: str
    variables: dict[str, str]
    action_text: str | None
    """The text of the program's action, None when it does not act."""
    calls: list[CallUsage]
    resend_thin: bool = False
    """Whether the program wants the next screen's thin parts sent again."""
