"""Secrets are replaced by ``{{secret:NAME}}`` when they are recorded, and filled in again when the
recording is replayed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TypeVar
from urllib.parse import quote

from pydantic import BaseModel, TypeAdapter, ValidationError

from agentserve.core.errors import InvalidRequest, RecordingError
from agentserve.core.secret_names import PLACEHOLDER, placeholder, placeholders_in
from agentserve.replay.bundle.format import SecretName
from agentserve.replay.redaction.forms import MIN_LENGTH, beginnings_of, pattern_of
from agentserve.replay.redaction.texts import changed_texts

W = TypeVar("W", bound=BaseModel)

MIN_SECRET = MIN_LENGTH
CUT = "…"
"""Ends a text that was cut, here and by most pages: the first part of a secret may be before it."""
MAX_SECRET = 10_000
MAX_SECRETS = 50
_MOST_CUT = 400
"""Characters of a secret that are looked for before a cut."""
_NAME: TypeAdapter[str] = TypeAdapter(SecretName)


def names_in(text: str) -> list[str]:
    """The secrets that a text has placeholders of, sorted, each once."""
    return sorted(placeholders_in(text))


class Secrets:
    """Values that no recording may hold, by their names."""

    def __init__(
        self,
        values: Mapping[str, str | Sequence[str]],
        passing: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """A name may stand for several values. ``passing`` are texts that are too common to be
        hidden within others, or too short: they are found alone, with no letter or digit beside
        them.

        Raises InvalidRequest for a name or a value that does not do.
        """
        passing = passing or {}
        self.names = tuple(dict.fromkeys([*values, *passing]))
        if len(self.names) > MAX_SECRETS:
            raise InvalidRequest(f"{len(self.names)} secrets; {MAX_SECRETS} is most")
        whole = {v: n for n, each in values.items() for v in _several(each)}
        alone = {v: n for n, each in passing.items() for v in each if v not in whole}
        for name in self.names:
            _check_name(name)
        for value, name in whole.items():
            _check(name, value)
        # the longest first: one may be the beginning of another
        longest = sorted((whole | alone).items(), key=lambda item: -len(item[0]))
        self._longest = [(" ".join(value.split()), name) for value, name in longest]
        self._groups = [name for _, name in longest]
        begins = "|".join(dict.fromkeys(beginnings_of(value) for value, _ in longest))
        forms = "|".join(f"({pattern_of(value, alone=value in alone)})" for value, _ in longest)
        self._pattern = re.compile(f"(?={begins})(?:{forms})") if longest else None

    def __bool__(self) -> bool:
        return bool(self.names)

    def hidden(self, text: str) -> str:
        """The text with every value, however it is escaped, replaced by its placeholder; also the
        first characters of one where the text was cut."""
        if self._pattern is None:
            return text
        text = self._pattern.sub(lambda found: self._placeholder(found), text)
        if CUT not in text:
            return text
        *cut, last = text.split(CUT)
        return CUT.join([*(self._without_beginning(part) for part in cut), last])

    def _placeholder(self, found: re.Match[str]) -> str:
        return placeholder(self._groups[(found.lastindex or 1) - 1])

    def _without_beginning(self, text: str) -> str:
        for value, name in self._longest:
            for form in {value, json.dumps(value, ensure_ascii=False)[1:-1]}:
                for length in range(min(len(form), _MOST_CUT), MIN_SECRET - 1, -1):
                    if text.endswith(form[:length]):
                        return text[:-length] + placeholder(name)
        return text

    def hidden_number(self, text: str) -> str:
        """A number as it is written, or the placeholder when it is a value: part of one is none."""
        found = self._pattern.fullmatch(text) if self._pattern is not None else None
        return self._placeholder(found) if found else text

    def hidden_in(self, value: W) -> W:
        """The same in every text of a model that is free: hashes, ids and fixed words stay.

        Texts that become too long for their field are cut; RecordingError is raised for one that a
        replay needs whole.
        """
        if not self.names:
            return value
        try:
            return changed_texts(
                value, lambda text, field: self.hidden(text), number=self.hidden_number
            )
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

        return PLACEHOLDER.sub(value_of, text)

    try:
        return changed_texts(action, filled)
    except ValidationError as error:
        raise InvalidRequest(
            f"with its secrets filled in, it is no {type(action).__name__} any more"
        ) from error


def _several(values: str | Sequence[str]) -> Sequence[str]:
    return [values] if isinstance(values, str) else values


def _check_name(name: str) -> None:
    try:
        _NAME.validate_python(name)
    except ValidationError:
        raise InvalidRequest(
            f"{name[:100]!r} is no name of a secret",
            hint="up to 64 letters, digits and _, as an environment variable has",
        ) from None


def _check(name: str, value: str) -> None:
    if not MIN_SECRET <= len(value) <= MAX_SECRET:
        raise InvalidRequest(
            f"the secret {name} has {len(value)} characters; {MIN_SECRET} to {MAX_SECRET} can be "
            "told from other text"
        )
