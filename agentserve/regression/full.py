"""Mode ``full``: an agent does the recorded task anew, on the live pages; its outcome and its path
are compared."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import Browser

from agentserve.agents.run import Agent, PageTarget, run_agent
from agentserve.browser.scenarios import Scenario, load_scenario
from agentserve.client import RouterClient
from agentserve.core.config import RunConfig
from agentserve.core.errors import RecordingError
from agentserve.core.sessions import ScreenPolicy
from agentserve.replay import Recording, read_recording
from agentserve.replay.bundle.format import Meta

SLACK_TURNS = 5
"""An agent that takes so many turns more than it took then has lost its way."""


def live_target(meta: Meta) -> PageTarget | Scenario:
    """The page that a recording was made on. Raises InvalidRequest for a scenario that is not known
    here, RecordingError when the recording does not say what page it was."""
    if meta.scenario is not None:
        return load_scenario(meta.scenario.name, meta.scenario.seed or 0)
    if not meta.url:
        raise RecordingError(
            f"{meta.id}: the recording does not say which page it was made on",
            hint="import it again with --url",
        )
    return PageTarget(url=meta.url, task=meta.task, viewport=meta.viewport, scale=meta.scale)


async def run_again(
    client: RouterClient, browser: Browser, recording: Recording, folder: Path
) -> Recording:
    """The same task by the same program with the same settings, recorded below ``folder``.

    Raises what opening the page and creating the session raise; RecordingError for a recording that
    no agent of ours made.
    """
    run, meta = recording.agent(), recording.meta
    screens = ScreenPolicy.model_validate(
        run.session.model_dump(include=set(ScreenPolicy.model_fields))
    )
    finished = await run_agent(
        client,
        browser,
        Agent(program=run.session.program, screens=screens, model=run.session.model),
        live_target(meta),
        RunConfig(max_turns=len(run.turns) + SLACK_TURNS),
        folder,
        seed=meta.scenario.seed if meta.scenario else None,
    )
    return read_recording(finished.recording)
