"""Policies beside each other, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentserve.bench.policies import PoliciesReport


def draw_policies(reports: Sequence[PoliciesReport], path: Path) -> None:
    """Tokens computed and held by turn, one row a tape, as a PNG (or what the suffix says)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.6 * len(reports)), layout="constrained")
    rows = figure.subplots(len(reports), 2, squeeze=False)
    for report, (left, right) in zip(reports, rows, strict=True):
        for one in report.policies:
            turns = range(1, one.turns + 1)
            left.plot(turns, [t.prefilled for t in one.by_turn], label=one.policy, marker=".")
            right.plot(turns, [t.prompt for t in one.by_turn], label=one.policy, marker=".")
        left.set(yscale="log", xlabel="turn", title=f"{report.tape}: tokens computed in the turn")
        right.set(xlabel="turn", title=f"{report.tape}: tokens of the prompt")
        left.legend()
    figure.savefig(path, dpi=110)
