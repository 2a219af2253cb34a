"""What a recording holds beside its steps' acts and no other tool's recording does."""

from __future__ import annotations

from agentserve.core.pages import PageSettings
from agentserve.replay.account import Account
from agentserve.replay.bundle.format import EXPECT, NETWORK
from agentserve.replay.bundle.reader import Recording

_PLAIN = PageSettings()


def tell_unheld(recording: Recording, account: Account, *, pointers: bool = True) -> None:
    """Of every format: what a replay of ours is judged by, and how it makes pages the same;
    ``pointers`` of those that cannot move the pointer before an act."""
    meta, page = recording.meta, recording.meta.page
    settings = [
        name
        for name in ("fixed_time", "random_seed", "animations")
        if getattr(page, name) != getattr(_PLAIN, name)
    ]
    for what, there in (
        (
            "where the pointer was before an act: what opens under it alone, as menus do, does not",
            pointers and any(isinstance(step.pointer, tuple) for step in recording.steps),
        ),
        ("the aria snapshots", any(step.aria for step in recording.steps)),
        (f"what the pages fetched ({NETWORK})", recording.entries.has(NETWORK)),
        (f"what a replay must find ({EXPECT})", recording.entries.has(EXPECT)),
        (f"how the pages were made to show the same ({', '.join(settings)})", settings),
        ("the further origins that might be visited", meta.allow),
    ):
        if there:
            account.lose(what)


def tell_unjudged(recording: Recording, account: Account) -> None:
    """Of formats that hold acts only: what an agent of any kind made of the task."""
    end = recording.end
    if any(step.result or step.thought for step in recording.steps):
        account.lose("what was thought and answered beside the actions")
    if end is not None and (end.success is not None or end.reward is not None):
        account.lose("whether the task succeeded")
