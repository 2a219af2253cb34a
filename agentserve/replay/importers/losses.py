"""What importers lose alike, and how they tell it."""

from __future__ import annotations

import math
from typing import Any

from agentserve.core.actions import Wait
from agentserve.core.actions.recorded import Unsupported
from agentserve.replay.account import Account, shortened
from agentserve.replay.bundle.format import MAX_TASK_CHARS
from agentserve.replay.importers.fields import Fields

MAX_WORDS = 2000
"""Characters of an address, and of what is said of a step's outcome."""
MAX_TIMEOUT_S = 600.0
"""Of a WaitFor, and of a pause."""
_MAX_WAIT_S = 30
"""Of one Wait."""


_EMULATED = (
    "isMobile", "hasTouch", "userAgent", "locale", "timezoneId", "geolocation", "permissions",
    "colorScheme", "reducedMotion", "forcedColors", "contrast", "extraHTTPHeaders",
    "httpCredentials", "offline", "proxy", "storageState",
    "clientCertificates",
)  # fmt: skip
"""Options of Playwright's contexts that change what pages show, and that no replay sets."""
_CREDENTIALS = {
    "httpCredentials", "proxy", "storageState", "extraHTTPHeaders", "clientCertificates", "env",
}  # fmt: skip
_DEFAULTS = (None, False, "", [], {}, "light", "no-preference", "none")


def task_of(text: str, account: Account) -> str:
    """What was to be done, as much as a recording holds."""
    return account.cut(text, MAX_TASK_CHARS, "the task")


def tell_options(options: Fields, account: Account) -> None:
    """What a context of Playwright emulated."""
    names = [name for name in _EMULATED if options.values.get(name) not in _DEFAULTS]
    if options.values.get("javaScriptEnabled") is False:
        names.append("javaScriptEnabled")
    if names:
        account.lose(f"the browser's options {', '.join(names)}: a replay has its own")


def without_credentials(header: dict[str, Any]) -> dict[str, Any]:
    """Options of Playwright without those that hold passwords, cookies and keys: no recording needs
    them, and their values are no texts that ``--secret`` is told of."""
    return {
        name: without_credentials(value) if isinstance(value, dict) else value
        for name, value in header.items()
        if name not in _CREDENTIALS
    }


def tell_unsupported(action: Any, account: Account, step: int) -> None:
    """What has no equal is a loss, wherever it was found to have none."""
    if isinstance(action, Unsupported):
        what = shortened(action.what, 300)
        account.lose(f"{what} has no equal; a replay stops there unless told to go by", step)


def waits(seconds: float, account: Account, step: int) -> list[Wait]:
    """A pause in whole seconds, in parts where it is long; that it has another length is a loss."""
    whole = min(max(math.ceil(seconds), 1), int(MAX_TIMEOUT_S))
    if whole != seconds:
        account.lose(f"a pause of {seconds:g} s became one of {whole} s", step)
    parts = [_MAX_WAIT_S] * (whole // _MAX_WAIT_S)
    parts += [whole % _MAX_WAIT_S] if whole % _MAX_WAIT_S else []
    return [Wait(seconds=part) for part in parts]


def timeout_s(params: Fields, default_ms: float, account: Account, step: int) -> float:
    """How long a wait of Playwright or Chrome may take; 0 ms is without end there. Raises
    RecordingError for what is no number."""
    timeout_ms = params.number("timeout", default_ms)
    if 0 < timeout_ms <= MAX_TIMEOUT_S * 1000:
        return max(timeout_ms / 1000, 0.001)
    said = f"of {timeout_ms / 1000:g} s" if timeout_ms > 0 else "without end"
    account.lose(f"a wait {said} ends after {MAX_TIMEOUT_S:g} s", step)
    return MAX_TIMEOUT_S
