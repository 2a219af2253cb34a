"""What ``agentserve recording import`` tells of what it has taken over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentserve.cli.console import command

if TYPE_CHECKING:
    from agentserve.replay.importers.taken import Taken

_SHOWN = 20
"""Of a list of steps, in words; ``--json`` has all."""


@dataclass(frozen=True)
class ImportReport:
    """A recording that was taken over, without its secrets, and where it was put."""

    folder: Path
    taken: Taken
    secrets: tuple[str, ...]
    """The names that were given with --secret."""

    def as_json(self) -> dict[str, object]:
        taken = self.taken
        return {
            "recording": str(self.folder),
            "format": taken.format,
            "version": taken.version,
            "task": taken.task,
            "url": taken.url,
            "steps": len(taken.steps),
            "screens": self.screens,
            "lost": list(taken.lost),
            "passwords": self.passwords,
            "typed": self.typed,
            "warnings": self.warnings(),
            "next": self.next(),
        }

    @property
    def screens(self) -> int:
        return sum(step.screenshot is not None for step in self.taken.steps)

    @property
    def passwords(self) -> list[int]:
        """Steps that seem to type a password in clear."""
        from agentserve.replay.redaction.passwords import typed_passwords

        return typed_passwords(self.taken.steps, self.taken.passwords)

    @property
    def typed(self) -> list[int]:
        """Steps that type another text in clear."""
        from agentserve.replay.redaction.passwords import typed_in_clear

        passwords = set(self.passwords)
        return [step for step in typed_in_clear(self.taken.steps) if step not in passwords]

    def warnings(self) -> list[str]:
        from agentserve.replay.redaction.passwords import keyed_one_by_one

        again = f"remove {self.folder} and import again with --secret NAME"
        told = []
        if found := self.passwords:
            told.append(
                f"{_steps(found)}: what is typed into a password's field stands in {self.folder} "
                f"in clear; to keep it out, {again}, the environment variable that holds it"
            )
        if found := self.typed:
            told.append(
                f"{_steps(found)}: a text is typed, in clear; if one is a secret, {again}, the "
                "environment variable that holds it"
            )
        if found := keyed_one_by_one(self.taken.steps):
            told.append(
                f"{_steps(found)}: a text is typed in single keys, in which --secret finds none"
            )
        if self.taken.blurred and self.screens:
            told.append(
                "its screens are frames of a screencast, which no replay shows px by px: accept "
                "those of a first replay by --update, once they were looked at (--html)"
            )
        told += [
            f"{_steps(steps)}: the source itself asks for the secret {name}; a replay gives it to "
            f"{self.taken.url[:200] or 'the page'}: see whose page that is"
            for name, steps in self._asked().items()
            if name not in self.secrets
        ]
        return told

    def next(self) -> str:
        """The command that replays it: as it is printed, if the variables are set."""
        words: list[str] = []
        for name in dict.fromkeys([*self.secrets, *self._asked()]):
            words += ["--secret", name]
        if any(getattr(step.performed, "kind", "") == "unsupported" for step in self.taken.steps):
            words.append("--skip-unsupported")
        again = command("replay", self.folder, "--mode", "browser", *words)
        if not self.taken.url:
            return (
                f'write the page\'s address as "url" in {self.folder / "meta.json"}, then {again}'
            )
        return again

    def _asked(self) -> dict[str, list[int]]:
        """The secrets that a replay needs, and the steps that it needs them for."""
        from agentserve.replay.importers.taken import said
        from agentserve.replay.redaction.secrets import names_in

        found: dict[str, list[int]] = {}
        for step in self.taken.steps:
            for name in names_in(said(step)):
                found.setdefault(name, []).append(step.index)
        return found


def _steps(indices: Sequence[int]) -> str:
    shown = ", ".join(map(str, indices[:_SHOWN]))
    more = f" and {len(indices) - _SHOWN} others" if len(indices) > _SHOWN else ""
    return f"step{'s' if len(indices) > 1 else ''} {shown}{more}"
