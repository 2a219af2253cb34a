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


async def play(storm: Storm, sessions: int, at_once: int, deed_every_s: float, deeds: int) -> dict:
    await storm.run(sessions, TURNS, at_once, deed_every_s, deeds)
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


@pytest.mark.timeout(300)
async def test_sixty_sessions(tmp_path: Path) -> None:
    async with running(tmp_path, workers=3, seed=1) as storm:
        figures = await play(storm, sessions=60, at_once=20, deed_every_s=0.7, deeds=8)
    print({key: figures[key] for key in ("deeds", "repeated", "replayed", "turn_s")})
    check(figures)


@pytest.mark.soak
@pytest.mark.timeout(5400)
async def test_ten_thousand_sessions(tmp_path: Path) -> None:
    more_files()
    async with running(tmp_path, workers=6, seed=2) as storm:
        figures = await play(storm, sessions=10_000, at_once=64, deed_every_s=4.0, deeds=1)
    out = Path(os.environ.get("AGENTSERVE_RESULTS", tmp_path)) / "storm.json"
    out.write_text(
        json.dumps({"command": " ".join(sys.argv), "commit": commit(), **figures}, indent=1)
    )
    print(f"figures: {out}")
    check(figures)
    half = [sum(sample[1:]) for sample in figures["router_memory_mb"] if all(sample[1:])]
    early, late = half[len(half) // 4 : len(half) // 2], half[-len(half) // 4 :]
    assert statistics.median(late) < 1.3 * statistics.median(early), "memory is flat"
