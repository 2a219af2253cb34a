"""The course of a training as a picture, from its log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agentserve.core.errors import InvalidRequest

LOG = "log.jsonl"
_LOSSES = ("answer", "characters", "words", "roles", "places")


def read_log(folder: Path) -> list[dict[str, Any]]:
    """A training's measurements by step; of a step that was done twice the later one.

    Raises InvalidRequest when the folder has none.
    """
    path = folder / LOG
    if not path.is_file():
        raise InvalidRequest(f"{path} does not exist", hint="agentserve nano train writes it")
    entries: dict[int, dict[str, Any]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        # a resumed training goes back to its checkpoint
        entries = {step: e for step, e in entries.items() if step < entry["step"]}
        entries[entry["step"]] = entry
    return list(entries.values())


def draw_curves(log: list[dict[str, Any]], path: Path) -> None:
    """Losses, and the share of clicks on held-out screens that would hit, as a PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name in _LOSSES:
        left.plot([e["step"] for e in log], [e[name] for e in log], label=name, linewidth=1)
    left.set(yscale="log", xlabel="step", title="Training losses")
    left.legend()
    watched = [e for e in log if "held_out" in e]
    steps = [e["step"] for e in watched]
    whole = [e["held_out"]["clicks"] for e in watched]
    right.plot(steps, [100 * hits / clicks for hits, clicks in whole], "k", label="all")
    for task in _often(watched):
        shares = [e["held_out"]["tasks"].get(task, (0, 0)) for e in watched]
        right.plot(steps, [100 * h / n if n else None for h, n in shares], label=task, linewidth=1)
    right.set(ylim=(0, 101), xlabel="step", title="Clicks on held-out screens that hit (%)")
    if watched:
        right.legend(fontsize="small")
    figure.savefig(path, dpi=110)


def _often(watched: list[dict[str, Any]], most: int = 8) -> list[str]:
    """The tasks with the most held-out clicks."""
    if not watched:
        return []
    tasks = watched[-1]["held_out"]["tasks"]
    return sorted(tasks, key=lambda task: -tasks[task][1])[:most]
