"""Policies, and settings of pruning, beside each other: as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentserve.bench.policies import PoliciesReport
from agentserve.bench.pruning import PruningReport


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


def draw_pruning(report: PruningReport, path: Path) -> None:
    """Over the kept share of the tokens, how often the answer is the unpruned one: a line a
    method, as a PNG (or what the suffix says)."""
    from matplotlib.figure import Figure

    off, *others = report.settings
    methods: dict[str, list[tuple[float, float]]] = {}
    for one in others:
        after = one.compression.eviction
        method = after.method if after is not None else one.name.partition(":")[0]
        name = f"after: {method}" if after is not None else method
        methods.setdefault(name, []).append((one.kept_share, one.same_answer))
    figure = Figure(figsize=(9, 5.5), layout="constrained")
    axes = figure.subplots()
    for index, (name, points) in enumerate(methods.items()):
        shares, same = zip(*sorted([*points, (off.kept_share, off.same_answer)]), strict=True)
        style = "--" if name.startswith("after") else "-"
        axes.plot(shares, same, style, label=name, marker=_MARKERS[index % len(_MARKERS)])
    axes.set(xlabel="kept share of visual tokens", ylabel="turns with the unpruned answer")
    axes.set_title(", ".join(tape.name for tape in report.tapes))
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(path, dpi=110)


_MARKERS = "os^vD*PX<>"
