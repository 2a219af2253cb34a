"""Exports for pages at another address than the recorded one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar
from urllib.parse import quote, urlsplit

from pydantic import BaseModel, ValidationError

from agentserve.core.errors import InvalidRequest
from agentserve.replay.bundle.reader import Recording
from agentserve.replay.exporters.given import Given
from agentserve.replay.redaction.texts import changed_texts

M = TypeVar("M", bound=BaseModel)


def give_at(
    give: Callable[[Recording], Given], recording: Recording, base_url: str | None
) -> Given:
    """What ``give`` makes of the recording, with ``base_url`` (``http://host:port``) wherever the
    origin of its pages stands; None: with that.

    That this was a scenario's, whose server is gone, is told. Raises InvalidRequest for what is no
    such address, and for a recording of no page on the web.
    """
    origin = _origin_of(recording)
    if base_url is not None:
        return give(_moved(recording, origin, _base(base_url)))
    given, scenario = give(recording), recording.meta.scenario
    texts = (data for name, data in given.files.items() if not name.endswith(".png"))
    if scenario is None or not origin or not any(origin.encode() in data for data in texts):
        return given
    told = (
        f"its addresses are of {origin}, a server that ran only while the scenario "
        f"{scenario.name} was recorded: serve the same pages, and export with --base-url and "
        "their address"
    )
    return replace(given, warnings=(told,))


def _origin_of(recording: Recording) -> str:
    """Of the page that it began on, or of the first that was gone to; empty: of none."""
    acts = (step.performed for step in recording.steps)
    urls = (recording.meta.url, *(getattr(act, "url", "") for act in acts))
    return next((origin for url in urls if (origin := _origin(url))), "")


def _origin(url: str) -> str:
    """``scheme://host[:port]`` as it is written; empty for no page on the web."""
    found = re.match(r"https?://[^\s/?#@]+(?=[/?#]|$)", url)
    return found[0] if found else ""


def _base(url: str) -> str:
    try:
        parts = urlsplit(url)
        whole = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        whole = False
    origin = _origin(url)
    if not whole or url not in (origin, f"{origin}/"):
        raise InvalidRequest(
            f"--base-url {url[:100]!r} is no address of a server",
            hint="it is scheme, host and port, as http://127.0.0.1:8000",
        )
    return origin


def _moved(recording: Recording, origin: str, base: str) -> Recording:
    if not origin:
        raise InvalidRequest(
            f"{recording.name}: it names no page on the web whose address --base-url could replace"
        )
    # not where it is the beginning of another host or port
    pattern = re.compile(
        rf"({re.escape(origin)})(?![\w.:@-])|{re.escape(quote(origin, safe=''))}(?![\w.-]|%3A|%40)",
        re.IGNORECASE,
    )

    def change(text: str, field: str) -> str:
        return pattern.sub(lambda found: base if found[1] else quote(base, safe=""), text)

    def changed(model: M) -> M:
        try:
            return changed_texts(model, change)
        except ValidationError as error:
            where = ".".join(str(part) for part in error.errors()[0]["loc"])
            raise InvalidRequest(
                f"{where[:200]}: the text does not fit any more with --base-url in it"
            ) from error

    meta, steps = changed(recording.meta), tuple(changed(step) for step in recording.steps)
    return replace(recording, meta=meta, steps=steps)
