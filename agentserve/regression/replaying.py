"""One recording replayed, in any mode."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from agentserve.core.errors import RecordingError
from agentserve.regression.browsing import replay_in_browser
from agentserve.regression.full import replay_full
from agentserve.regression.options import ReplayOptions
from agentserve.regression.parts import Parts
from agentserve.replay import Recording, Replayed, replay_model
from agentserve.replay.compare.expectations import Expectations, expectations_of
from agentserve.replay.results import OnStep


async def replay_one(
    parts: Parts,
    recording: Recording,
    name: str,
    options: ReplayOptions,
    on_step: OnStep | None = None,
) -> Replayed:
    """Replay a recording; ``name`` is the report's. What the router or the page says no to is part
    of the report.

    Raises RecordingError for a damaged recording, and for a mode that it is not for, and what
    starting a router or a browser raises.
    """
    rules = rules_for(recording, options)
    match options.mode:
        case "model":
            report = await replay_model(
                await parts.router(), recording, expectations=rules, on_step=on_step
            )
            replayed = Replayed(report, recording)
        case "browser":
            browser = await parts.browser()
            replayed = await replay_in_browser(browser, recording, rules, options, on_step)
        case "full":
            with tempfile.TemporaryDirectory(prefix="agentserve-full-") as folder:
                client, browser = await parts.router(), await parts.browser()
                replayed = await replay_full(
                    client, browser, recording, rules, Path(folder), options.secrets
                )
        case "engine":
            raise RecordingError(
                "the mode engine compares two workers, not one with a recording",
                hint="see regression.engine",
            )
    report = replayed.report.model_copy(update={"name": name})
    return replace(replayed, report=report, expectations=rules)


def rules_for(recording: Recording, options: ReplayOptions) -> Expectations:
    """What the recording expects, and what was asked for over it. Raises RecordingError."""
    rules = expectations_of(recording)
    if options.tolerance_px is None:
        return rules
    actions = rules.actions.model_copy(update={"tolerance_px": options.tolerance_px})
    return rules.model_copy(update={"actions": actions})
