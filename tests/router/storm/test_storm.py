"""No session is lost and no pin is wrong, whatever dies. The large one writes its figures."""

from __future__ import annotations

import json
import os
import statistics
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from agentserve.nano.evaluate.provenance import commit

from .storm import Storm, more_files, running

TURNS = 5


async def figures_of(storm: Storm) -> dict:
    told = storm.told
    await storm.ready()
    wrong = await storm.wrong(TURNS)
    ordered = sorted(told.seconds)
    return {
        "sessions": len(storm.sessions),
        "turns": told.turns,
        "lost": told.lost,
        "wrong": wrong,
        "deeds": dict(told.deeds),
        "repeated": dict(told.repeated),
        "slow_bodies": told.slow,
        "replayed": told.replayed,
        "turn_s": {
            "p50": statistics.median(ordered),
            "p99": ordered[int(0.99 * len(ordered))],
            "max": ordered[-1],
        },
        "router_memory_mb": asdict(told)["memory_mb"],
    }


def check(figures: dict) -> None:
    assert figures["lost"] == []
    assert figures["wrong"] == []
    assert figures["turns"] == figures["sessions"] * TURNS


# a client that leaves while it connects: its socket is left to the garbage collector
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.mark.timeout(300)
async def test_sixty_sessions(tmp_path: Path) -> None:
    async with running(tmp_path, workers=3, seed=1) as storm:
        await storm.run(60, TURNS, at_once=20, deed_every_s=0.7, deeds=8)
        figures = await figures_of(storm)
    print({k: figures[k] for k in ("deeds", "repeated", "slow_bodies", "replayed", "turn_s")})
    check(figures)


@pytest.mark.soak
@pytest.mark.timeout(5400)
async def test_ten_thousand_sessions(tmp_path: Path) -> None:
    more_files()
    async with running(tmp_path, workers=6, seed=2) as storm:
        await storm.run(5_000, TURNS, at_once=64, deed_every_s=4.0, deeds=1)
        # the first router lives through the second half, so that its memory can be looked at
        second_half, storm.mortal = len(storm.told.memory_mb), storm.mortal[1:]
        await storm.run(5_000, TURNS, at_once=64, deed_every_s=4.0, deeds=1)
        figures = await figures_of(storm)
    out = Path(os.environ.get("AGENTSERVE_RESULTS", tmp_path)) / "storm.json"
    out.write_text(
        json.dumps({"command": " ".join(sys.argv), "commit": commit(), **figures}, indent=1)
    )
    _draw(figures, out.with_suffix(".png"))
    print(f"figures: {out}")
    check(figures)
    held = [sample[1] for sample in figures["router_memory_mb"][second_half:]]
    early, late = held[len(held) // 4 : len(held) // 2], held[-len(held) // 4 :]
    assert statistics.median(late) < 1.15 * statistics.median(early), "memory is flat"


def _draw(figures: dict, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    axes = figure.subplots()
    for number in (1, 2):
        # 0: the router was just being started again
        shown = [(s[0], s[number]) for s in figures["router_memory_mb"] if s[number]]
        axes.plot(*zip(*shown, strict=True), label=f"router {number}")
    axes.set(xlabel="s", ylabel="resident MB", ylim=(0, None))
    axes.set_title(f"{figures['sessions']:,} sessions, {figures['turns']:,} turns")
    axes.legend()
    figure.savefig(path, dpi=100)
