"""The page that a recording was made on."""

from __future__ import annotations

from collections.abc import Mapping

from agentserve.agents.run import PageTarget
from agentserve.browser.scenarios import Scenario, load_scenario
from agentserve.core.errors import RecordingError
from agentserve.replay.bundle.format import Meta
from agentserve.replay.redaction.secrets import revealed


def live_target(meta: Meta, secrets: Mapping[str, str]) -> PageTarget | Scenario:
    """``secrets`` are values by the names that stand for them in the recording.

    Raises InvalidRequest for a scenario that is not known here and for a secret that is not given,
    RecordingError when the recording does not say what page it was.
    """
    if meta.scenario is not None:
        return load_scenario(meta.scenario.name, meta.scenario.seed or 0)
    if not meta.url:
        raise RecordingError(
            f"{meta.id}: the recording does not say which page it was made on",
            hint='write the page\'s address as "url" in its meta.json',
        )
    meta = revealed(meta, secrets)
    return PageTarget(
        url=meta.url,
        task=meta.task,
        viewport=meta.viewport,
        scale=meta.scale,
        allow=tuple(meta.allow),
    )
