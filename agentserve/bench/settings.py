"""The settings that ``agentserve bench pruning`` compares, and how they are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from agentserve.core.errors import InvalidRequest
from agentserve.core.families import Family
from agentserve.core.pruning import (
    METHODS,
    Compression,
    EvictionMethod,
    parse_eviction,
    parse_pruning,
)

AFTER = "after:"
"""Before a method that chooses after the answer: ``uniform`` and ``random`` are of both kinds."""
BASELINES = ("uniform", "random", "after:uniform", "after:random")
WITHOUT_SHARE = ("after:vtw",)
"""Methods that keep what they keep, whatever the ratio."""


@dataclass(frozen=True)
class Setting:
    """One row of the table."""

    method: str
    """As it is asked for; ``off`` is the baseline of all."""
    ratio: float | None = None
    """The share of tokens that is to go. None: the method itself says."""
    compression: Compression = Compression()

    @property
    def name(self) -> str:
        return self.method if self.ratio is None else f"{self.method}:{self.ratio:g}"


def settings_of(asked: str | None, ratios: Sequence[float], family: Family) -> list[Setting]:
    """``off``, then the methods ``asked`` for, and the baselines, at each of ``ratios``.

    ``asked`` is a list by commas of METHOD, ``after:METHOD``, or either with a ratio of its own
    (``fastv:0.3``). None: all that models of the family can do. Raises InvalidRequest.
    """
    if asked is None:
        names = [
            name for name, method in METHODS.items()
            if method.where != "inside" or family.prunes_inside
        ]  # fmt: skip
        names += [f"{AFTER}{name}" for name in get_args(EvictionMethod)]
    else:
        names = [name.strip() for name in asked.split(",") if name.strip() not in ("", "off")]
    chosen = {"off": Setting("off")}
    for name in [*names, *BASELINES]:
        for setting in _each(name, ratios):
            chosen.setdefault(setting.name, setting)
    return list(chosen.values())


def setting_of(text: str) -> Setting:
    """One setting by its name: ``off``, METHOD:RATIO, after:METHOD:RATIO, or either without a
    ratio, which is then 0.5. Raises InvalidRequest for anything else."""
    if "," in text:
        raise InvalidRequest(
            f"{text[:200]!r} are several settings; one can be given",
            hint="write METHOD, after:METHOD, METHOD:RATIO or after:METHOD:RATIO",
        )
    name = text.strip()
    return Setting("off") if name == "off" else _each(name, [0.5])[0]


def _each(name: str, ratios: Sequence[float]) -> list[Setting]:
    after = name.startswith(AFTER)
    method, colon, own = name.removeprefix(AFTER).partition(":")
    method = f"{AFTER}{method}" if after else method
    if method in WITHOUT_SHARE:
        if colon:
            raise InvalidRequest(
                f"{name!r}: {method} has no ratio: it keeps what it keeps", hint=f"write {method}"
            )
        return [Setting(method, None, _compression(method, None))]
    shares = [_number(own, name)] if colon else ratios
    return [Setting(method, share, _compression(method, share)) for share in shares]


def _compression(method: str, ratio: float | None) -> Compression:
    if not method.startswith(AFTER):
        return Compression(pruning=parse_pruning(f"{method}:{ratio}"))
    name = method.removeprefix(AFTER)
    text = name if ratio is None else f"{name}:{round(1 - ratio, 6):g}"
    return Compression(eviction=parse_eviction(text))


def _number(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidRequest(
            f"{name!r}: {text!r} is no ratio",
            hint="write METHOD, after:METHOD, METHOD:RATIO or after:METHOD:RATIO",
        ) from None
