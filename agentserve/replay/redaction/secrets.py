"""Secrets are replaced by ``{{secret:NAME}}`` when they are recorded, and filled in again when the
recording is replayed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import quote

from pydantic import BaseModel, TypeAdapter, ValidationError

from agentserve.core.errors import InvalidRequest, RecordingError
from agentserve.replay.bundle.format import SecretName
from agentserve.replay.redaction.forms import pattern_of
from agentserve.replay.redaction.texts import changed_texts

W = TypeVar("W", bound=BaseModel)

MIN_SECRET = 4
"""Characters: shorter texts stand everywhere."""
MAX_SECRET = 10_000
MAX_SECRETS = 50
_PLACEHOLDER = re.compile(r"\{\{secret:([A-Za-z_][A-Za-z0-9_]{0,63})\}\}")
_NAME: TypeAdapter[str] = TypeAdapter(SecretName)


def placeholder(name: str) -> str:
    return "{{secret:" + name + "}}"


class Secrets:
    """Values that no recording may hold, by their names."""

    def __init__(self, values: Mapping[str, str]) -> None:
        """Raises InvalidRequest for a name or a value that does not do."""
        if len(values) > MAX_SECRETS:
            raise InvalidRequest(f"{len(values)} secrets; {MAX_SECRETS} is most")
        for name, value in values.items():
            _check(name, value)
        self.names = tuple(values)
        # the longest first: one may be the beginning of another
        longest = sorted(values.items(), key=lambda item: -len(item[1]))
        self._pattern = re.compile("|".join(f"(?P<{n}>{pattern_of(v)})" for n, v in longest))

    def __bool__(self) -> bool:
        return bool(self.names)

    def hidden(self, text: str) -> str:
        """The text with every value, however it is escaped, replaced by its placeholder."""
        if not self.names:
            return text
        return self._pattern.sub(lambda found: placeholder(str(found.lastgroup)), text)

    def hidden_in(self, value: W) -> W:
        """The same in every text of a model that is free: hashes, ids and fixed words stay.

        Texts that become too long for their field are cut; RecordingError is raised for one that a
        replay needs whole.
        """
        if not self.names:
            return value
        try:
            return changed_texts(value, lambda text, field: self.hidden(text))
        except ValidationError as error:
            where = ".".join(str(part) for part in error.errors()[0]["loc"])
            raise RecordingError(
                f"{where[:200]}: the text does not fit any more with its secrets replaced",
                hint="give the secret a shorter name",
            ) from error


def revealed(action: W, secrets: Mapping[str, str]) -> W:
    """An action, or another model of a recording, with its secrets filled in; in a ``url`` they are
    percent-encoded.

    Raises InvalidRequest naming a secret that is not given.
    """

    def filled(text: str, field: str) -> str:
        def value_of(found: re.Match[str]) -> str:
            value = secrets.get(found[1])
            if value is None:
                raise InvalidRequest(
                    f"the recording needs the secret {found[1]}, which is not given",
                    hint=f"give it as --secret {found[1]} (of pytest: --agentserve-secret "
                    f"{found[1]}), with its value in the environment variable {found[1]}",
                )
            return quote(value, safe="") if field == "url" else value

        return _PLACEHOLDER.sub(value_of, text)

    try:
        return changed_texts(action, filled)
    except ValidationError as error:
        raise InvalidRequest(
            f"with its secrets filled in, it is no {type(action).__name__} any more"
        ) from error


def _check(name: str, value: str) -> None:
    try:
        _NAME.validate_python(name)
    except ValidationError:
        raise InvalidRequest(
            f"{name[:100]!r} is no name of a secret",
            hint="up to 64 letters, digits and _, as an environment variable has",
        ) from None
    if not MIN_SECRET <= len(value) <= MAX_SECRET:
        raise InvalidRequest(
            f"the secret {name} has {len(value)} characters; {MIN_SECRET} to {MAX_SECRET} can be "
            "told from other text"
        )
