"""What a turn cost, against its recording and against a budget. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentserve.core.sessions import Usage
from agentserve.replay.compare.difference import Difference, against_accepted
from agentserve.replay.compare.expectations import UsageRule

DEFAULT = UsageRule()


def turn_usage_differences(
    recorded: Usage | None,
    replayed: Usage,
    rule: UsageRule = DEFAULT,
    *,
    accepted: Mapping[str, Sequence[int]] | None = None,
) -> list[Difference]:
    """What one turn cost. The counts that ``rule`` names must be the recorded ones; where
    some were ``accepted``, by their names, one of those. Without a recorded usage only the budget
    holds."""
    differences: list[Difference] = []
    for name in rule.counts if recorded is not None else ():
        was, now = getattr(recorded, name), getattr(replayed, name)
        instead = (accepted or {}).get(name, ())
        if instead and now not in instead:
            differences += against_accepted([_different(f"usage.{name}", instead[-1], now)])
        elif not instead and now != was:
            differences.append(_different(f"usage.{name}", was, now))
    most = rule.max_turn_prefilled
    if most is not None and replayed.prefilled_tokens > most:
        differences.append(_over(recorded and recorded.prefilled_tokens, replayed, most, "a turn"))
    return differences


def budget_differences(
    recorded: Sequence[Usage | None], replayed: Sequence[Usage], rule: UsageRule = DEFAULT
) -> list[Difference]:
    """What all turns cost. Both sequences are of the same turns, in order."""
    differences: list[Difference] = []
    before = [usage for usage in recorded if usage is not None]
    total = _sum(replayed)
    if rule.max_prefilled is not None and total.prefilled_tokens > rule.max_prefilled:
        was = _sum(before).prefilled_tokens if before else None
        differences.append(_over(was, total, rule.max_prefilled, "all turns"))
    share = cached_share(replayed)
    if rule.min_cached_share is not None and share is not None and share < rule.min_cached_share:
        found = cached_share(before)
        differences.append(
            _different(
                "usage.cached_share",
                None if found is None else round(found, 4),
                round(share, 4),
                f"{share:.1%} of the prompts behind the first turn's came from the cache, at least "
                f"{rule.min_cached_share:.1%} should",
            )
        )
    return differences


def cached_share(turns: Sequence[Usage]) -> float | None:
    """Of the prompts' tokens behind the first turn, which can find nothing of its own: those found
    in the cache, 0 to 1. None when there are none."""
    total = _sum(turns[1:])
    return total.cached_tokens / total.prompt_tokens if total.prompt_tokens else None


def _sum(turns: Sequence[Usage]) -> Usage:
    total = Usage()
    for usage in turns:
        total = total.plus(usage)
    return total


def _over(was: int | None, replayed: Usage, most: int, whose: str) -> Difference:
    now = replayed.prefilled_tokens
    message = f"{whose} may compute at most {most:,} tokens: {now - most:,} too many"
    return _different("usage.prefilled_tokens", was, now, message)


def _different(field: str, was: float | None, now: float, message: str = "") -> Difference:
    return Difference(comparer="usage", field=field, recorded=was, replayed=now, message=message)
