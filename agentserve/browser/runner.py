"""The observe-turn-act loop: screenshot, ask the router, perform the action, look again.

Knows core.runs.Computer only, so that a scripted computer runs the same loop as a browser.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from agentserve.browser.tasks import Check, TaskState
from agentserve.client import RouterClient
from agentserve.core.actions import Action, CallUser, Done, points
from agentserve.core.config import RunConfig
from agentserve.core.elements import ElementTarget
from agentserve.core.errors import AgentServeError, TurnInProgress, Unavailable
from agentserve.core.runs import Computer, EndReason, RunObserver, RunSummary, Step
from agentserve.core.sessions import Outcome, Session, TurnResult

FIRST_BACKOFF_S = 0.5
LONGEST_BACKOFF_S = 8.0
SPREAD = 0.25
"""Most that a pause is longer, as a share of it: those that were refused together come back one by
one, and none before it was asked to."""
RELEASE_TIMEOUT_S = 10.0
INVALID_IN_A_ROW = 2
"""The first is told to the model, this many end the run."""

logger = logging.getLogger(__name__)


async def run_task(
    client: RouterClient,
    computer: Computer,
    session: Session,
    config: RunConfig,
    *,
    check: Check | None = None,
    observers: Sequence[RunObserver] = (),
) -> RunSummary:
    """Run the session's task to its end and release the session.

    A fresh session and a computer that shows its start page are handed in. What the browser or the
    router cannot recover from ends the run with ``end="error"``; nothing of that is raised. An
    interruption is, after the observers have been told of it and the session is released.
    """
    run = _Run(client, computer, session, config, check, observers)
    summary = run.summary("error", "the run failed; its log says why")
    try:
        for observer in observers:
            await observer.started(session, computer.url)
        summary = await run.loop()
    except AgentServeError as error:
        summary = run.summary("error", f"{error.code}: {error.message}")
    except (asyncio.CancelledError, KeyboardInterrupt):
        summary = run.summary("interrupted", "the run was interrupted")
        raise
    finally:
        try:
            for observer in observers:
                await observer.ended(summary)
        finally:
            await _release(client, session.id)
    return summary


async def _release(client: RouterClient, session_id: str) -> None:
    try:
        async with asyncio.timeout(RELEASE_TIMEOUT_S):
            await client.release(session_id)
    except (AgentServeError, TimeoutError) as error:
        # the session expires by itself; how the run ended matters more
        logger.warning("session %s was not released: %s", session_id, error)


@dataclass
class _Repeats:
    """Counts how often the same action has followed the same screen."""

    limit: int
    last: tuple[str, Action] | None = None
    times: int = 0

    def nudge(self, screen: str, action: Action) -> str:
        """A sentence for the model at every ``limit``-th repetition, else nothing."""
        self.times = self.times + 1 if self.last == (screen, action) else 1
        self.last = (screen, action)
        if self.times % self.limit:
            return ""
        return (
            f"The same {action.kind} has now been done {self.times} times and the screen looks the "
            "same as before each of them. Do something else."
        )


class _Run:
    """One run: the loop and what it carries from turn to turn."""

    def __init__(
        self,
        client: RouterClient,
        computer: Computer,
        session: Session,
        config: RunConfig,
        check: Check | None,
        observers: Sequence[RunObserver],
    ) -> None:
        self._client = client
        self._computer = computer
        self._session_id = session.id
        self._config = config
        self._check = check
        self._observers = observers
        self._epoch = session.epoch
        self._turns = 0
        self._state: TaskState | None = None
        self._outcome: Outcome | None = None
        self._invalid = 0
        self._repeats = _Repeats(config.repeat_limit)

    def summary(self, end: EndReason, message: str = "") -> RunSummary:
        return RunSummary(
            session_id=self._session_id,
            end=end,
            message=message,
            success=self._state.success if self._state else None,
            reward=self._state.reward if self._state else None,
            turns=self._turns,
        )

    async def loop(self) -> RunSummary:
        while self._turns < self._config.max_turns:
            ended = await self._step()
            if ended is not None:
                return ended
        return self.summary("max_turns", "not finished")

    async def _step(self) -> RunSummary | None:
        """One turn. The run's summary when it was the last one."""
        begun = time.perf_counter()
        index, url, told = self._turns, self._computer.url, self._outcome
        image = await self._computer.screenshot()
        for observer in self._observers:
            await observer.screenshot(index, image)
        result = await self._turn(image)
        self._epoch = result.epoch + 1
        self._turns += 1
        target, to_target = await self._targets(result.action)
        performed, outcome = await self._act(result)
        self._outcome = self._nudged(performed, outcome, image)
        if self._check is not None:
            self._state = await self._check()
        step = Step(
            index=index,
            url=url,
            instruction=None,
            outcome_sent=told,
            result=result,
            performed=performed,
            target=target,
            to_target=to_target,
            outcome=outcome,
            step_ms=(time.perf_counter() - begun) * 1000,
        )
        for observer in self._observers:
            await observer.step(step)
        return self._end(result)

    async def _turn(self, image: bytes) -> TurnResult:
        """Ask for the action. While nobody can answer, ask again with the same epoch: a turn that
        was completed meanwhile is answered from store."""
        deadline: float | None = None
        backoff = FIRST_BACKOFF_S
        while True:
            try:
                return await self._client.turn(
                    self._session_id, image, epoch=self._epoch, outcome=self._outcome
                )
            except (Unavailable, TurnInProgress) as error:
                now = time.monotonic()
                deadline = deadline or now + self._config.retry_timeout_s
                asked = backoff if error.retry_after is None else error.retry_after
                pause = asked * (1 + random.uniform(0, SPREAD))
                if now + pause > deadline:
                    raise
                logger.info("turn %d: %s; again in %.1f s", self._turns, error, pause)
                await asyncio.sleep(pause)
                backoff = min(2 * backoff, LONGEST_BACKOFF_S)

    async def _targets(
        self, action: Action | None
    ) -> tuple[ElementTarget | None, ElementTarget | None]:
        """The elements under the action's first and second point."""
        found = [await self._computer.element_at(x, y) for x, y in points(action)] if action else []
        return (found[0] if found else None, found[1] if len(found) > 1 else None)

    async def _act(self, result: TurnResult) -> tuple[Action | None, Outcome]:
        """Perform the turn's action. Returns what was performed and what became of it."""
        if result.invalid is not None:
            self._invalid += 1
            return None, Outcome(status="invalid", message=result.invalid.reason[:2000])
        self._invalid = 0
        if result.action is None:
            return None, Outcome(status="ok")
        return result.action, await self._computer.perform(result.action)

    def _nudged(self, performed: Action | None, outcome: Outcome, image: bytes) -> Outcome:
        """What the next turn is told: the outcome, behind a nudge where one is due."""
        if performed is None:
            return outcome
        nudge = self._repeats.nudge(hashlib.sha256(image).hexdigest(), performed)
        # the nudge comes first: a page's own long message must not cut it off
        message = f"{nudge} {outcome.message}".strip()[:2000]
        return Outcome(status=outcome.status, message=message)

    def _end(self, result: TurnResult) -> RunSummary | None:
        if self._state is not None and self._state.done:
            return self.summary("task_ended")
        if self._invalid >= INVALID_IN_A_ROW:
            return self.summary("invalid_actions", result.invalid.reason if result.invalid else "")
        match result.action:
            case Done(status=status, text=text):
                return self.summary("done" if status == "success" else "gave_up", text)
            case CallUser(text=text):
                return self.summary("call_user", text)
            case None if result.invalid is None:
                return self.summary("done", result.text)  # a program that answers instead of acting
        return None
