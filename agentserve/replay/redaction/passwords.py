"""Steps of an imported recording that seem to type a password. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentserve.core.actions import Type
from agentserve.core.actions.recorded import Fill
from agentserve.core.elements import ElementTarget
from agentserve.core.secret_names import placeholders_in
from agentserve.replay.bundle.format import StepLine

_PASSWORD = re.compile(
    r"passw|pass[-_ ]?phrase|pass[-_ ]?code|\bpwd?\b|passwor[td]|contrase|mot de passe|kennwort",
    re.IGNORECASE,
)


def typed_passwords(steps: Sequence[StepLine]) -> list[int]:
    """Indices of the steps that type in clear into an element whose selectors or text speak of a
    password: a guess, for people."""
    return [
        step.index
        for step in steps
        if isinstance(step.performed, (Fill, Type))
        and _is_clear(
            step.performed.value if isinstance(step.performed, Fill) else step.performed.text
        )
        and step.target is not None
        and _speaks_of_one(step.target)
    ]


def _is_clear(text: str) -> bool:
    return bool(text) and not placeholders_in(text)


def _speaks_of_one(target: ElementTarget) -> bool:
    values = [selector.value for chain in target.selectors for selector in chain]
    return any(_PASSWORD.search(text) for text in [*values, target.text])
