"""Two runs of the same prompts, on two workers or under two settings. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from agentserve.core.model import Wire
from agentserve.replay.compare.difference import Difference


class EngineTurn(Wire):
    """What a worker made of one prompt."""

    tokens: tuple[int, ...]
    """Ids of the output."""
    texts: tuple[str, ...] = ()
    """Of each token; empty when unknown."""
    logprobs: tuple[float, ...] = ()
    """Of each token, natural; empty when they were not asked for."""
    prompt_tokens: int
    cached_tokens: int
    times_ms: dict[str, Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    """By what took them, as ``prefill``."""


class EngineRule(Wire):
    """What may differ between two workers that do the same."""

    max_logprob_difference: Annotated[float, Field(ge=0)] = 0.1
    """In nats: a token may become a tenth more or less probable. Two workers of one build and one
    batch differ by 0; other kernels or batch sizes round otherwise, by some hundredths in bf16."""
    tokens: bool = True
    cached: bool = True
    """Whether both must find equally many tokens in the cache."""


DEFAULT = EngineRule()


def engine_differences(
    recorded: EngineTurn, replayed: EngineTurn, rule: EngineRule = DEFAULT
) -> list[Difference]:
    """Times are never differences: see ``ratios``.

    Logprobs are compared as far as the outputs are the same: behind the first token that is
    another one, they are of another text.
    """
    differences: list[Difference] = []
    same = _same_length(recorded.tokens, replayed.tokens)
    if rule.tokens and not same == len(recorded.tokens) == len(replayed.tokens):
        differences.append(
            Difference(
                comparer="tokens",
                field=f"tokens.{same}",
                recorded=_token(recorded, same),
                replayed=_token(replayed, same),
                message=f"the outputs are the same for {same} tokens, of {len(recorded.tokens)} "
                f"and {len(replayed.tokens)}",
            )
        )
    differences += _logprobs(recorded, replayed, same, rule.max_logprob_difference)
    for name in ("prompt_tokens", "cached_tokens") if rule.cached else ("prompt_tokens",):
        was, now = getattr(recorded, name), getattr(replayed, name)
        if was != now:
            differences.append(
                Difference(comparer="usage", field=f"usage.{name}", recorded=was, replayed=now)
            )
    return differences


def ratios(recorded: Sequence[EngineTurn], replayed: Sequence[EngineTurn]) -> dict[str, float]:
    """By what took them: how many times as long all turns take now. Only what both measured."""
    was, now = _totals(recorded), _totals(replayed)
    return {name: now[name] / was[name] for name in was if name in now and was[name] > 0}


def _logprobs(
    recorded: EngineTurn, replayed: EngineTurn, same: int, most: float
) -> list[Difference]:
    untold = [
        name for name, turn in (("first", recorded), ("second", replayed)) if not turn.logprobs
    ]
    if same and len(untold) == 1:
        return [
            Difference(
                comparer="tokens",
                field="logprobs",
                recorded=len(recorded.logprobs),
                replayed=len(replayed.logprobs),
                message=f"the {untold[0]} one told no log-probabilities: they were not compared",
            )
        ]
    pairs = list(zip(recorded.logprobs[:same], replayed.logprobs[:same], strict=False))
    if not pairs:
        return []
    far = max(range(len(pairs)), key=lambda index: abs(pairs[index][0] - pairs[index][1]))
    was, now = pairs[far]
    if abs(was - now) <= most:
        return []
    return [
        Difference(
            comparer="tokens",
            field=f"logprobs.{far}",
            recorded=was,
            replayed=now,
            message=f"{abs(was - now):.4g} nats apart, the most of {len(pairs)} tokens; "
            f"{most:g} are allowed",
        )
    ]


def _same_length(first: Sequence[int], second: Sequence[int]) -> int:
    pairs = zip(first, second, strict=False)
    different = (index for index, (one, other) in enumerate(pairs) if one != other)
    return next(different, min(len(first), len(second)))


def _token(turn: EngineTurn, index: int) -> str | int | None:
    """Its text where that is known; None behind the end."""
    if index >= len(turn.tokens):
        return None
    return turn.texts[index] if index < len(turn.texts) else turn.tokens[index]


def _totals(turns: Sequence[EngineTurn]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for turn in turns:
        for name, ms in turn.times_ms.items():
            totals[name] = totals.get(name, 0.0) + ms
    return totals
