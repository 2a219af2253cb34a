"""What a person put into password fields, as what a recording must not hold. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from agentserve.browser.person import Hidden
from agentserve.core.errors import RecordingError
from agentserve.replay.redaction.secrets import MAX_SECRET, MIN_SECRET, Secrets


def secrets_of(given: Mapping[str, str], hidden: Hidden) -> Secrets:
    """The secrets that were given, and all that was in password fields so far.

    What was there only while it was typed is the beginning of many words: it is hidden where it
    stands alone, as is a password that is too short.
    """
    whole: dict[str, tuple[str, ...]] = {name: (value,) for name, value in given.items()}
    alone: dict[str, tuple[str, ...]] = {}
    for name, values in hidden.lasting.items():
        found = tuple(value[:MAX_SECRET] for value in values if len(value) >= MIN_SECRET)
        whole[name] = (*whole.get(name, ()), *found)
        alone[name] = tuple(value for value in values if len(value) < MIN_SECRET)
    for name, values in hidden.passing.items():
        found = tuple(value[:MAX_SECRET] for value in values if len(value) >= MIN_SECRET)
        alone[name] = (*alone.get(name, ()), *found)
    return Secrets(whole, alone)


def check_findable(hidden: Hidden) -> None:
    """Raises RecordingError when a password is too short to be found in what pages fetched."""
    if any(len(value) < MIN_SECRET for values in hidden.lasting.values() for value in values):
        raise RecordingError("a password is too short to be told from other text in it")
