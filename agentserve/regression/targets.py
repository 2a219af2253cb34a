"""The page that a recording was made on."""

from __future__ import annotations

from agentserve.agents.run import PageTarget
from agentserve.browser.scenarios import Scenario, load_scenario
from agentserve.core.errors import RecordingError
from agentserve.replay.bundle.format import Meta


def live_target(meta: Meta) -> PageTarget | Scenario:
    """Raises InvalidRequest for a scenario that is not known here, RecordingError when the
    recording does not say what page it was."""
    if meta.scenario is not None:
        return load_scenario(meta.scenario.name, meta.scenario.seed or 0)
    if not meta.url:
        raise RecordingError(
            f"{meta.id}: the recording does not say which page it was made on",
            hint="import it again with --url",
        )
    return PageTarget(url=meta.url, task=meta.task, viewport=meta.viewport, scale=meta.scale)
