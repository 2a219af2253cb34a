"""A run told as it happens: one line a turn."""

from __future__ import annotations

from collections.abc import Callable

from rich.markup import escape

from agentserve.core.actions import format_action
from agentserve.core.runs import RunSummary, Step
from agentserve.core.sessions import Session
from agentserve.replay.redaction.secrets import Secrets


def step_line(step: Step) -> str:
    """``turn 3  click 12 40  ok  1.2 s, 512 tokens, 430 cached`` with rich markup. The time is the
    turn's, as the router measured it: the browser's work is not in it."""
    usage = step.result.usage
    if step.performed is not None:
        action = escape(format_action(step.performed))
    elif step.result.invalid is not None:
        action = f"no action: {escape(step.result.invalid.reason)}"
    else:
        action = escape(step.result.text.strip()[:80])
    mark = {"ok": "[green]ok[/]", "failed": "[yellow]failed[/]", "invalid": "[yellow]invalid[/]"}
    reason = ""
    if step.outcome.status == "failed" and step.outcome.message:
        reason = f" ({escape(step.outcome.message.splitlines()[0][:120])})"
    return (
        f"turn {step.result.turn:<3} [bold]{action}[/]  {mark[step.outcome.status]}{reason}  "
        f"[dim]{step.result.timings.total_ms / 1000:.1f} s, {usage.prompt_tokens} tokens, "
        f"{usage.cached_tokens} cached[/]"
    )


def end_line(summary: RunSummary) -> str:
    verdict = {True: "[green]success[/]", False: "[red]no success[/]", None: "no check"}
    message = f": {escape(summary.message[:200])}" if summary.message else ""
    turns = f"{summary.turns} turn{'' if summary.turns == 1 else 's'}"
    return f"ended after {turns} ({summary.end}{message}), {verdict[summary.success]}"


class Narrator:
    """A RunObserver that says each line to ``say``, without the values of secrets: what a run
    prints is kept as well, by whoever runs it unattended."""

    def __init__(self, say: Callable[[str], None], secrets: Secrets) -> None:
        self._say = say
        self._secrets = secrets

    async def started(self, session: Session, url: str) -> None:
        self._say(f"session {session.id} on {escape(self._secrets.hidden(url))}")

    async def screenshot(self, index: int, image: bytes) -> None:
        pass

    async def step(self, step: Step) -> None:
        self._say(step_line(self._secrets.hidden_in(step)))

    async def ended(self, summary: RunSummary) -> None:
        self._say(end_line(self._secrets.hidden_in(summary)))
