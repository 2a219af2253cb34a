"""The plugin's options, checked once before anything is collected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentserve.core.config import secret_value
from agentserve.pytest_plugin import MODES
from agentserve.pytest_plugin.keys import SETTINGS
from agentserve.regression.options import ReplayOptions, default_mode
from agentserve.replay import Recording
from agentserve.replay.results import Mode

NETWORKS = ("live", "recorded")


@dataclass(frozen=True)
class Settings:
    """What was asked for."""

    modes: tuple[Mode, ...]
    """Empty: each recording's own."""
    recorded_network: bool
    live_on_miss: bool
    secrets: Mapping[str, str]
    update: bool
    also: bool
    """Of an update: whether what passed until now still does."""

    def modes_of(self, recording: Recording) -> tuple[Mode, ...]:
        return self.modes or (default_mode(recording),)

    def options(self, mode: Mode) -> ReplayOptions:
        return ReplayOptions(
            mode=mode,
            network="recorded" if self.recorded_network else "live",
            on_miss="live" if self.live_on_miss else "fail",
            secrets=self.secrets,
        )


def settings_of(config: pytest.Config) -> Settings:
    """Raises pytest.UsageError for what cannot be, and for an option that would do nothing."""
    if (settings := config.stash.get(SETTINGS, None)) is None:
        settings = _checked(config)
        config.stash[SETTINGS] = settings
    return settings


def _checked(config: pytest.Config) -> Settings:
    modes = _modes(config.getoption("agentserve_mode"))
    recorded = config.getoption("agentserve_network") == "recorded"
    on_miss = config.getoption("agentserve_on_miss")
    names = config.getoption("agentserve_secret")
    if on_miss is not None and not recorded:
        raise pytest.UsageError(
            "--agentserve-on-miss is of answers from the recording: "
            "add --agentserve-network recorded"
        )
    if modes and "browser" not in modes and config.getoption("agentserve_network") is not None:
        raise pytest.UsageError("--agentserve-network does nothing without the mode browser")
    if modes == ("model",) and names:
        raise pytest.UsageError("--agentserve-secret does nothing in the mode model")
    also = config.getoption("agentserve_also")
    if also and not config.getoption("agentserve_update"):
        raise pytest.UsageError("--agentserve-also is of --agentserve-update: give both")
    page = config.getoption("agentserve_html")
    if page is not None and not (folder := Path(page).absolute().parent).is_dir():
        raise pytest.UsageError(f"--agentserve-html: there is no folder {folder}")
    if page is not None and Path(page).is_dir():
        raise pytest.UsageError(f"--agentserve-html: {page} is a folder: name a file")
    return Settings(
        modes=modes,
        recorded_network=recorded,
        live_on_miss=on_miss == "live",
        secrets={name: _secret(name) for name in names},
        update=config.getoption("agentserve_update"),
        also=also,
    )


def _modes(text: str) -> tuple[Mode, ...]:
    asked = dict.fromkeys(mode.strip() for mode in text.split(",") if mode.strip())
    if unknown := [mode for mode in asked if mode not in MODES]:
        raise pytest.UsageError(f"--agentserve-mode: {unknown[0]!r} is none of {', '.join(MODES)}")
    return tuple(mode for mode in MODES if mode in asked)


def _secret(name: str) -> str:
    value = secret_value(name)
    if not value:
        raise pytest.UsageError(
            f"--agentserve-secret {name[:100]}: there is no such environment variable"
        )
    return value
