"""Who plays: the model by way of a router, and two baselines that act on the page directly."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from playwright.async_api import Error as PlaywrightError

from agentserve.browser.runner import run_task
from agentserve.browser.scenarios import Stage
from agentserve.browser.tasks import TaskState
from agentserve.client import RouterClient
from agentserve.core.actions import Action, Click, action_to_css
from agentserve.core.config import RunConfig
from agentserve.core.errors import AgentServeError, BrowserFailed
from agentserve.core.runs import EndReason, RunSummary, Step
from agentserve.core.screens import screen_space
from agentserve.core.sessions import ScreenPolicy, Session, SessionCreate, Usage
from agentserve.nano.evaluate.episodes import Job, Played
from agentserve.nano.oracles import next_step, to_action
from agentserve.nano.recipe import GRID

Player = Callable[[Stage, Job, int], Awaitable[Played]]
"""Plays an opened job to its end, in at most so many turns. What ends
this episode alone makes it an ``error``; what would end every other one too is raised."""


@dataclass(frozen=True)
class Trained:
    """The model, asked through the router for each action."""

    client: RouterClient
    program: str
    screens: ScreenPolicy

    async def __call__(self, stage: Stage, job: Job, max_turns: int) -> Played:
        """Raises what creating a session raises: Unavailable, UnknownProgram, InvalidRequest."""
        session = await self.client.create_session(
            SessionCreate(
                program=self.program,
                task=stage.goal,
                viewport=stage.scenario.viewport,
                scale=stage.scenario.scale,
                surface=stage.scenario.name,
                **self.screens.model_dump(),
                metadata={"run": stage.scenario.name, "seed": str(job.seed)},
            )
        )
        stage.computer.fit(session.space)
        meter = _Meter()
        summary = await run_task(
            self.client,
            stage.computer,
            session,
            RunConfig(max_turns=max_turns),
            check=lambda: check(stage),
            observers=[meter],
        )
        return Played(
            success=bool(summary.success),
            reward=summary.reward or 0.0,
            end=summary.end,
            message=summary.message,
            turns=summary.turns,
            turn_ms=meter.turn_ms,
            step_ms=meter.step_ms,
            usage=meter.usage,
        )


@dataclass
class _Meter:
    """A RunObserver that keeps what a run has cost."""

    turn_ms: list[float] = field(default_factory=list)
    step_ms: list[float] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)

    async def started(self, session: Session, url: str) -> None:
        pass

    async def screenshot(self, index: int, image: bytes) -> None:
        pass

    async def step(self, step: Step) -> None:
        self.turn_ms.append(round(step.result.timings.total_ms, 1))
        self.step_ms.append(round(step.step_ms, 1))
        self.usage = self.usage.plus(step.result.usage)

    async def ended(self, summary: RunSummary) -> None:
        pass


async def random_clicks(stage: Stage, job: Job, max_turns: int) -> Played:
    """A Player that clicks anywhere on the screen, each pixel being as likely as another."""
    dice = random.Random(f"{job.task}/{job.seed}")
    screen = stage.scenario.viewport

    async def choose() -> Action:
        return Click(x=dice.randrange(screen.width), y=dice.randrange(screen.height))

    return await _act(stage, choose, max_turns)


async def oracle(stage: Stage, job: Job, max_turns: int) -> Played:
    """A Player that reads the page's DOM. Its points are as coarse as the model's, so that what it
    reaches is what a model could."""
    scenario = stage.scenario
    space = screen_space(scenario.viewport, scenario.scale, GRID)

    async def choose() -> Action | None:
        try:
            step = await next_step(stage.computer.page, job.task, stage.goal)
        except PlaywrightError as error:
            line = error.message.splitlines()[0]
            raise BrowserFailed(f"the oracle cannot read {job.task}: {line}") from error
        return None if step is None else action_to_css(to_action(step, space), space)

    return await _act(stage, choose, max_turns)


async def check(stage: Stage) -> TaskState:
    """The task's own check; who has left the task's page has lost."""
    if stage.computer.url.partition("#")[0] != stage.url:
        return TaskState(done=True, reward=0.0, success=False)
    return await stage.check()


async def _act(
    stage: Stage, choose: Callable[[], Awaitable[Action | None]], max_turns: int
) -> Played:
    """Perform what ``choose`` gives, in CSS px, until the task has ended or it gives nothing."""
    state = TaskState(done=False, reward=0.0, success=False)
    end: EndReason = "max_turns"
    turns = 0
    try:
        while turns < max_turns:
            action = await choose()
            if action is None:
                end = "gave_up"
                break
            await stage.computer.perform(action)
            turns += 1
            state = await check(stage)
            if state.done:
                end = "task_ended"
                break
    except AgentServeError as error:
        return broken_off(error, turns)
    return Played(success=state.success, reward=state.reward, end=end, turns=turns)


def broken_off(error: AgentServeError, turns: int = 0) -> Played:
    """An episode that an error of the machinery has ended."""
    message = f"{error.code}: {error.message}"
    return Played(success=False, reward=0.0, end="error", message=message, turns=turns)
