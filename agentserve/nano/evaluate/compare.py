"""Evaluations side by side: the same episodes under other settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from agentserve.core.errors import InvalidRequest
from agentserve.core.model import Wire
from agentserve.core.sessions import ScreenPolicy
from agentserve.nano.evaluate.episodes import Episode
from agentserve.nano.evaluate.report import Report
from agentserve.nano.evaluate.scores import wilson


class Comparison(Wire):
    """One evaluation beside the base, over the episodes (task and seed) that both have."""

    name: str
    screens: ScreenPolicy
    commit: str | None
    episodes: int
    successes: int
    low: float
    high: float
    """The 95 % interval of the rate, by Wilson."""
    lost: int
    """Episodes in which the base succeeds and this one does not."""
    won: int
    sent_share: float
    """Visual tokens in the prompts, of those that the base sent anew."""
    computed_share: float
    """Of those sent, computed in all layers: not dropped inside the model."""
    freed_tokens: float
    """Mean over the episodes: slots freed behind answers."""

    @property
    def points(self) -> float:
        """Difference of the rates, in percentage points."""
        return 100 * (self.won - self.lost) / self.episodes


def read_report(path: Path) -> Report:
    """Raises InvalidRequest for what is no evaluation's file."""
    try:
        return Report.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidRequest(
            f"{path} is no evaluation: {reason}", hint="agentserve nano evaluate --out writes one"
        ) from error


def compare(reports: Sequence[tuple[str, Report]]) -> list[Comparison]:
    """(Name, evaluation) each, the base first. Raises InvalidRequest when one of them has no
    episode in common with the base, or other weights."""
    base = _trained(reports[0][1])
    rows = []
    for name, report in reports:
        if report.conditions.model_sha256 != reports[0][1].conditions.model_sha256:
            raise InvalidRequest(f"{name} was played with other weights than {reports[0][0]}")
        own = _trained(report)
        common = sorted(base.keys() & own.keys())
        if not common:
            raise InvalidRequest(f"{name} and {reports[0][0]} have no episode in common")
        pairs = [(base[key], own[key]) for key in common]
        successes = sum(mine.success for _, mine in pairs)
        low, high = wilson(successes, len(pairs))
        sent = sum(mine.usage.sent_tokens for _, mine in pairs)
        rows.append(
            Comparison(
                name=name,
                screens=report.conditions.screens,
                commit=report.commit,
                episodes=len(pairs),
                successes=successes,
                low=low,
                high=high,
                lost=sum(theirs.success and not mine.success for theirs, mine in pairs),
                won=sum(mine.success and not theirs.success for theirs, mine in pairs),
                sent_share=sent / max(1, sum(theirs.usage.sent_tokens for theirs, _ in pairs)),
                computed_share=1
                - sum(mine.usage.pruned_tokens for _, mine in pairs) / max(1, sent),
                freed_tokens=sum(mine.usage.freed_tokens for _, mine in pairs) / len(pairs),
            )
        )
    return rows


def _trained(report: Report) -> dict[tuple[str, int], Episode]:
    return {
        (episode.task, episode.seed): episode
        for episode in report.episodes
        if episode.player == "trained"
    }
