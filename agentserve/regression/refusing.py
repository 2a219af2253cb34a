"""What speaks against a replay as far as its recording and its options tell: said before a worker,
a router or a browser is started for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserve.core.actions.recorded import Unsupported
from agentserve.core.errors import RecordingError
from agentserve.core.pruning import Compression
from agentserve.regression.browsing import network_of
from agentserve.regression.options import ReplayOptions
from agentserve.regression.targets import live_target
from agentserve.replay import Recording
from agentserve.replay.compare.expectations import Expectations
from agentserve.replay.compare.texts import check_pattern
from agentserve.replay.redaction.secrets import revealed
from agentserve.vision.policies import parse_policy

if TYPE_CHECKING:
    from agentserve.lang.registry import Registry


def check_replay(recording: Recording, rules: Expectations, options: ReplayOptions) -> None:
    """Reads all that the replay will compare with. Blocking.

    Raises RecordingError for a recording that is damaged, that the mode is not for, or that has not
    what the options ask of it; InvalidRequest for a secret that it needs and is not given, for a
    scenario that is not known here, and for a pattern of ``rules`` that is none.
    """
    if options.mode != "browser":
        recording.agent()
        for own in (rules, *rules.steps):
            check_pattern(own.actions.texts)
    _check_steps(recording)
    if options.mode != "model":
        live_target(recording.meta, options.secrets)
    if options.mode == "browser":
        network_of(recording, options)
        _check_actions(recording, options)
    if options.mode != "full":  # which has screens of its own, and shows no others
        _check_entries(recording, rules, arias=options.mode == "browser")


def check_engine(recording: Recording, programs: Registry, compression: Compression | None) -> None:
    """The same of the mode engine, with the ``compression`` that the second side gets.

    Raises UnknownProgram, and RecordingError for a recording that is damaged, that no agent of ours
    made, or whose session sends whole screens, which nothing is left out of.
    """
    session = recording.agent().session
    _check_steps(recording)
    programs.get(session.program)
    _check_entries(recording, Expectations(), arias=False)
    if compression in (None, Compression()) or parse_policy(session.policy).mosaic:
        return
    raise RecordingError(
        f"{recording.name}: its session has the policy {session.policy}, which sends whole screens:"
        " none of their tokens can be left out",
        hint="--setting is for recordings of the policy mosaic: agentserve run --policy mosaic",
    )


def _check_steps(recording: Recording) -> None:
    if not recording.taken:
        raise RecordingError(
            f"{recording.name}: it has no steps: there is nothing to compare",
            hint="record it again: it ended before anything was done",
        )


def _check_actions(recording: Recording, options: ReplayOptions) -> None:
    for step in recording.steps:
        if isinstance(step.performed, Unsupported):
            if not options.go_by_unsupported:
                raise RecordingError(
                    f"{recording.name}: step {step.index} has no equal here: {step.performed.what}",
                    hint="agentserve replay --skip-unsupported leaves such steps out; "
                    "or record it anew",
                )
        elif step.performed is not None:
            revealed(step.performed, options.secrets)


def _check_entries(recording: Recording, rules: Expectations, *, arias: bool) -> None:
    """What is named by its hash must have it. Raises RecordingError."""
    shas = [step.screenshot for step in recording.steps]
    for own in rules.steps:
        shas += own.accepted_screens
    for sha in dict.fromkeys(shas):
        if sha is not None:
            recording.screenshot(sha)
    shas = [step.aria for step in recording.steps]
    for own in rules.steps:
        shas += own.accepted_aria
    for sha in dict.fromkeys(shas) if arias else ():
        if sha is not None:
            recording.aria(sha)
