"""Played episodes on disk, as JSON lines, so that a killed evaluation goes on where it stopped."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import ValidationError

from agentserve.core.errors import InvalidRequest
from agentserve.nano.evaluate.episodes import Conditions, Episode


class EpisodeLog:
    """The first line holds the conditions, each further one an episode.

    A line is on its way to the disk before ``add`` returns. A last line that was cut off by a kill
    is dropped on reading, anything else that is wrong is told.
    """

    def __init__(self, path: Path, conditions: Conditions, *, resume: bool) -> None:
        """Start a log at ``path``, or go on with the one that is there.

        Raises InvalidRequest when a log is there and ``resume`` is not set, when it was made under
        other conditions, or when it is damaged.
        """
        self.path = path
        self.episodes: list[Episode] = []
        """What the log held when it was opened, without what the machinery broke off."""
        if not resume:
            check_new(path)
        kept = _read(path, conditions) if path.exists() else []
        self.episodes = [episode for episode in kept if episode.end != "error"]
        lines = [conditions.model_dump_json(), *(one.model_dump_json() for one in self.episodes)]
        beside = path.with_name(f"{path.name}.new")
        beside.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        beside.replace(path)
        self._file = path.open("a", encoding="utf-8")

    def add(self, episode: Episode) -> None:
        self._file.write(f"{episode.model_dump_json()}\n")
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()


def check_new(path: Path) -> None:
    """Raises InvalidRequest when a log is there already."""
    if path.exists():
        raise InvalidRequest(
            f"{path} holds the episodes of an unfinished evaluation",
            hint="go on with it by --resume, or remove it",
        )


def _read(path: Path, conditions: Conditions) -> list[Episode]:
    *lines, _cut_off = path.read_text(encoding="utf-8").split("\n")
    try:
        found = [Conditions.model_validate_json(line) for line in lines[:1]]
        episodes = [Episode.model_validate_json(line) for line in lines[1:]]
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidRequest(
            f"{path} is no log of an evaluation: {first['msg']}", hint="remove it, or name another"
        ) from error
    if found and found[0] != conditions:
        other = [name for name in Conditions.model_fields if _differs(name, found[0], conditions)]
        raise InvalidRequest(
            f"{path} was made under other conditions: {', '.join(other)}",
            hint="remove it, or evaluate what it was begun with",
        )
    return episodes


def _differs(name: str, one: Conditions, other: Conditions) -> bool:
    return getattr(one, name) != getattr(other, name)
