"""The whole result of an evaluation, as it is printed and kept."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from agentserve.core.errors import InvalidRequest
from agentserve.core.model import Wire
from agentserve.nano.evaluate.episodes import Conditions, Episode
from agentserve.nano.evaluate.scores import Scores


class Report(Wire):
    """What was evaluated, how, and what came out."""

    command: str
    """Run it to repeat the evaluation."""
    commit: str | None
    """See ``provenance.commit``."""
    conditions: Conditions
    device: str
    """Where the worker ran: cpu or cuda."""
    cpus: int
    concurrency: int
    """Episodes at once: turn times depend on it."""
    seeds: list[int]
    ended_at: datetime
    complete: bool
    """Whether all episodes were played, and none was broken off by the machinery."""
    scores: Scores
    episodes: list[Episode]


def write_report(path: Path, report: Report) -> None:
    """Write ``path`` as JSON; it appears at once, whole. Raises InvalidRequest.

    An episode is a line: there are thousands, and nobody wants a line for each of their numbers.
    """
    head = report.model_dump_json(indent=1, exclude={"episodes"}).removesuffix("\n}")
    episodes = ",\n".join(f"  {episode.model_dump_json()}" for episode in report.episodes)
    text = f'{head},\n "episodes": [\n{episodes}\n ]\n}}\n'
    beside = path.with_name(f"{path.name}.new")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise InvalidRequest(f"cannot write {path}: {error.strerror or error}") from error
