"""What of ``agentserve replay``'s options has an effect, in which mode."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentserve.cli.redaction import secret_given
from agentserve.cli.router_or_local import check_router
from agentserve.core.errors import InvalidRequest

if TYPE_CHECKING:
    from agentserve.regression.options import OnMiss, ReplayOptions
    from agentserve.replay import Recording
    from agentserve.replay.results import Mode

_MODES: dict[str, tuple[Mode, ...]] = {
    "--router": ("model", "full"),
    "--local": ("model", "full"),
    "--tolerance": ("model", "browser", "full"),
    "--network": ("browser",),
    "--on-miss": ("browser",),
    "--skip-unsupported": ("browser",),
    "--secret": ("browser", "full"),
    "--worker": ("engine",),
    "--against": ("engine",),
    "--setting": ("engine",),
    "--headed": ("browser", "full"),
    "--update": ("model", "browser", "full"),
}
"""The modes that do something with an option."""


def check_file(option: str, path: Path | None) -> None:
    """Raises InvalidRequest for a file that could not be written when all is done."""
    if path is None:
        return
    if not path.absolute().parent.is_dir():
        raise InvalidRequest(
            f"{option}: there is no folder {path.absolute().parent}", hint="make it first"
        )
    if path.is_dir():
        raise InvalidRequest(f"{option}: {path} is a folder", hint="name a file to write")


@dataclass(frozen=True)
class Asked:
    """What was asked for; None, False and nothing: it was not."""

    mode: Mode | None = None
    router: str | None = None
    local: bool = False
    headed: bool = False
    tolerance_px: float | None = None
    network: str | None = None
    on_miss: OnMiss | None = None
    go_by_unsupported: bool = False
    secrets: tuple[str, ...] = ()
    worker: str | None = None
    against: str | None = None
    setting: str | None = None
    update: bool = False
    steps: tuple[int, ...] = ()
    also: bool = False

    def check(self) -> None:
        """Raises InvalidRequest for options that do not go together."""
        if self.steps and not self.update:
            raise InvalidRequest("--step says what --update accepts", hint="add --update")
        check_router(self.router, local=self.local)
        if self.also and not self.update:
            raise InvalidRequest(
                "--also is of --update: it keeps what passed until now", hint="add --update"
            )
        if self.on_miss is not None and self.network != "recorded":
            raise InvalidRequest(
                "--on-miss is of answers from the recording", hint="add --network recorded"
            )
        if self.mode is not None:
            self.check_modes({self.mode})

    def check_modes(self, modes: Collection[Mode]) -> None:
        """Raises InvalidRequest for an option that none of ``modes`` does anything with."""
        given = {
            "--router": self.router,
            "--local": self.local,
            "--tolerance": self.tolerance_px is not None,
            "--network": self.network,
            "--on-miss": self.on_miss,
            "--skip-unsupported": self.go_by_unsupported,
            "--secret": self.secrets,
            "--worker": self.worker,
            "--against": self.against,
            "--setting": self.setting,
            "--headed": self.headed,
            "--update": self.update,
        }
        for option, value in given.items():
            known = _MODES[option]
            if value and not set(known) & set(modes):
                raise InvalidRequest(
                    f"{option} does nothing in the mode {' or '.join(sorted(modes))}",
                    hint=f"it is of the mode {' or '.join(known)}: say --mode",
                )

    def check_steps(self, recordings: Sequence[Recording]) -> None:
        """Raises InvalidRequest for a step that one of the recordings has not."""
        for recording in recordings:
            indices = {step.index for step in recording.steps}
            if unknown := sorted(set(self.steps) - indices):
                raise InvalidRequest(
                    f"--step {unknown[0]}: {recording.name} has no such step",
                    hint=f"its steps are 0 to {len(indices) - 1}; --step is best of one recording",
                )

    def options(self, recording: Recording) -> ReplayOptions:
        """For one recording. Raises InvalidRequest for a secret that is not there."""
        from agentserve.regression.options import ReplayOptions, default_mode

        return ReplayOptions(
            mode=self.mode or default_mode(recording),
            tolerance_px=self.tolerance_px,
            network="recorded" if self.network == "recorded" else "live",
            on_miss=self.on_miss or "fail",
            go_by_unsupported=self.go_by_unsupported,
            secrets={name: secret_given(name) for name in self.secrets},
        )
