"""The running of ``agentserve nano evaluate``: joins a stack, a browser and the players."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.async_api import Browser

from agentserve.agents.run import Agent
from agentserve.browser.launch import launch_browser
from agentserve.cli.console import err
from agentserve.cli.nano_evaluate_view import EvaluationView
from agentserve.cli.stack import StackOptions, local_stack
from agentserve.client import RouterClient
from agentserve.core.config import api_key
from agentserve.core.errors import InvalidRequest, NoWorker
from agentserve.core.workers import WorkerReport, WorkerState
from agentserve.nano.evaluate.episodes import Conditions, Episode, PlayerName, plan
from agentserve.nano.evaluate.log import EpisodeLog
from agentserve.nano.evaluate.players import Player, Trained, oracle, random_clicks
from agentserve.nano.evaluate.provenance import commit, package_versions, weights_sha256
from agentserve.nano.evaluate.report import Report
from agentserve.nano.evaluate.runner import play_all
from agentserve.nano.evaluate.scores import reckon

if TYPE_CHECKING:
    from agentserve.cli.nano_evaluate import EvaluateOptions


@dataclass
class Found:
    """What is known so far; made outside of the running, so that an interruption leaves it."""

    conditions: Conditions | None = None
    device: str = ""
    episodes: list[Episode] = field(default_factory=list)


async def run_evaluation(options: EvaluateOptions, found: Found) -> None:
    """Play what a log does not hold yet; all of it is in ``found`` then."""
    agent = Agent(program=options.program, screens=options.screens)
    jobs = plan(options.tasks, options.episodes, options.players)
    async with (
        _router(options, agent.program_file()) as client,
        launch_browser() as browser,
    ):
        worker = await _worker(client)
        found.device = worker.device
        found.conditions = await _conditions(client, worker, browser, agent, options.max_turns)
        log = None
        if options.log is not None:
            log = EpisodeLog(options.log, found.conditions, resume=options.resume)
            planned = set(jobs)
            found.episodes += [one for one in log.episodes if one.job in planned]
        played = {episode.job for episode in found.episodes}
        players: dict[PlayerName, Player] = {
            "trained": Trained(client, agent.name, agent.screens),
            "random": random_clicks,
            "oracle": oracle,
        }
        with EvaluationView(err, jobs, found.episodes) as view, log or nullcontext():

            def keep(episode: Episode) -> None:
                found.episodes.append(episode)
                if log is not None:
                    log.add(episode)
                view.add(episode)

            await play_all(
                browser,
                players,
                (job for job in jobs if job not in played),
                keep,
                concurrency=options.concurrency,
                max_turns=options.max_turns,
            )


def make_report(options: EvaluateOptions, found: Found) -> Report:
    """The result as far as it goes; ``found.conditions`` must be known."""
    assert found.conditions is not None
    jobs = plan(options.tasks, options.episodes, options.players)
    order = {job: index for index, job in enumerate(jobs)}
    episodes = sorted(found.episodes, key=lambda one: order[one.job])
    scores = reckon(found.conditions, options.tasks, episodes)
    return Report(
        command=options.command,
        commit=commit(),
        conditions=found.conditions,
        device=found.device,
        cpus=os.cpu_count() or 1,
        concurrency=options.concurrency,
        seeds=list(range(options.episodes)),
        ended_at=datetime.now(UTC),
        complete=len(episodes) == len(jobs) and not scores.errors,
        scores=scores,
        episodes=episodes,
    )


@asynccontextmanager
async def _router(options: EvaluateOptions, program: Path | None) -> AsyncIterator[RouterClient]:
    """A client of the given router, or of a stack that lives as long as the block."""
    if options.router is not None:
        async with RouterClient(options.router, api_key=api_key()) as client:
            yield client
        return
    stack_options = StackOptions(
        workers=1, model=options.model or "nano", programs=(program,) if program else ()
    )
    with err.status("starting") as spinner:

        def say(text: str) -> None:
            err.print(text) if not err.is_terminal else spinner.update(text)

        async with local_stack(stack_options, say) as stack, RouterClient(stack.router) as client:
            spinner.stop()
            yield client


async def _worker(client: RouterClient) -> WorkerReport:
    """What the workers say of themselves. Raises NoWorker when none is ready, InvalidRequest when
    they serve different models."""
    workers = (await client.workers()).workers
    ready = [one.report for one in workers if one.state is WorkerState.READY and one.report]
    if not ready:
        raise NoWorker(f"no worker of the router at {client.url} is ready")
    models = sorted({report.model for report in ready})
    if len(models) > 1:
        raise InvalidRequest(
            f"the router at {client.url} serves several models: {', '.join(models)}",
            hint="evaluate one at a time, each by a router of its own",
        )
    return ready[0]


async def _conditions(
    client: RouterClient, worker: WorkerReport, browser: Browser, agent: Agent, turns: int | None
) -> Conditions:
    programs = {one.name: one.sha256 for one in (await client.programs()).programs}
    served = worker.served_model_name
    return Conditions(
        # where it lies on this machine is nobody's business
        model=Path(served).name if os.path.isabs(served) else served,
        model_sha256=weights_sha256(Path(worker.model)),
        program=agent.name,
        program_sha256=programs.get(agent.name),
        screens=agent.screens,
        max_turns=turns,
        versions={
            **package_versions(),
            "sglang": worker.sglang_version,
            "chromium": browser.version,
        },
    )
