"""The benchmark of pruning on a real worker."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image

from agentserve.bench.calls import Call, Calls
from agentserve.bench.player import Played, SessionPlayer
from agentserve.bench.plot import draw_pruning
from agentserve.bench.pruning import PruningReport, Session, measure
from agentserve.bench.scripts import Filler, Recorded, Texts
from agentserve.bench.settings import settings_of
from agentserve.bench.tape import Tape
from agentserve.bench.worker import BenchWorker
from agentserve.cli.serve import bundled_programs
from agentserve.core.errors import InvalidRequest
from agentserve.core.sessions import Outcome, ScreenPolicy
from agentserve.lang.registry import load_registry
from agentserve.vision.layouts import Layout

from .conftest import ORIGIN

MOSAIC = ScreenPolicy(policy="mosaic", cell=56, vision_context="cell")
TEXTS = Texts(50, 20)
OWNERS = itertools.count()


def play(worker: BenchWorker, tape: Tape, forced: list[list[Call]]) -> list[Played]:
    """The first turns of the tape, as one session more."""
    script = Filler(worker, TEXTS, "seed")
    owner = f"test-bench-{next(OWNERS)}"
    player = SessionPlayer(worker, MOSAIC, tape, owner, script, Layout())
    return [player.turn(number, calls) for number, calls in enumerate(forced)]


def test_each_setting_beside_off(worker: BenchWorker, tape: Tape, tmp_path: Path) -> None:
    short = dataclasses.replace(tape, screens=tape.screens[:3])
    sessions = [Session(short, Filler(worker, TEXTS, tape.name))]
    settings = settings_of("fastv,after:attention", [0.5], worker.family)
    told = []
    report = measure(worker, sessions, settings, MOSAIC, 2, ORIGIN, lambda: told.append(1))
    assert PruningReport.model_validate_json(report.model_dump_json()) == report
    assert len(told) == 3 * 2 * len(settings)
    figures = {one.name: one for one in report.settings}
    off = figures.pop("off")
    # a screen of 80 tokens, then twice two cells of four
    assert (off.sent, off.kept, off.same_first, off.same_answer) == (96, 96, 1, 1)
    for name, one in figures.items():
        assert (one.sent, one.kept, one.unchosen) == (96, 48, 0), name
        assert one.held_ratio == pytest.approx(1 - 40 / off.held, abs=0.02), name
        assert (one.lost, one.flops) == (0, None), name
    # what works before the model is never computed, what works later is; an answer's last token
    # may be in the cache or not
    computed = {name: one.computed_per_turn for name, one in figures.items()}
    assert computed["uniform:0.5"] == pytest.approx(off.computed_per_turn - 48 / 3, abs=1)
    assert computed["fastv:0.5"] == pytest.approx(off.computed_per_turn, abs=1)
    draw_pruning(report, tmp_path / "plot.png")
    with Image.open(tmp_path / "plot.png") as drawn:
        assert drawn.width > 500


def test_a_session_goes_on_from_another_ones_answer(worker: BenchWorker, tape: Tape) -> None:
    own = play(worker, tape, [[], []])
    (call,) = own[0].calls
    other_ids = worker.tokenizer.encode("click 3")
    other = dataclasses.replace(
        call,
        ids=tuple(other_ids),
        answer=call.answer
        | {
            "output_ids": other_ids,
            "text": "click 3",
            "meta_info": call.meta | {"finish_reason": {"type": "stop", "matched": None}},
        },
    )
    forced = play(worker, tape, [[other], []])
    assert forced[0].calls[0].ids == call.ids != other.ids, "the model was asked all the same"
    shorter = len(call.meta["kept_ids"]) - len(other_ids)
    assert own[1].figures.prompt - forced[1].figures.prompt == shorter
    for turns in (own, forced):
        # the forced answer is in the cache before the next turn, as a generated one is
        assert turns[1].figures.cached >= turns[1].figures.expected > 0


def test_a_recorded_program_is_asked_again(worker: BenchWorker, tape: Tape) -> None:
    steps = [
        SimpleNamespace(instruction=None, outcome_sent=None),
        SimpleNamespace(instruction="Go on.", outcome_sent=Outcome(status="failed", message="no")),
    ]
    turns = [SimpleNamespace(step=step) for step in steps]
    program = load_registry([bundled_programs()]).get("navigator")
    short = dataclasses.replace(tape, screens=tape.screens[:2])
    sessions = [Session(short, Recorded(program, "Click the button.", turns))]
    settings = settings_of("uniform", [0.5], worker.family)
    report = measure(worker, sessions, settings, MOSAIC, 1, ORIGIN, lambda: None)
    off = report.settings[0]
    assert (report.turns, off.same_answer, off.lost) == (2, 1, 0)
    assert [one.lost for one in report.settings] == [0] * len(settings)


def test_several_prompts_at_once_are_refused(worker: BenchWorker) -> None:
    with pytest.raises(InvalidRequest, match="selects"):
        Calls(worker).generate({"input_ids": [[1], [2]], "sampling_params": {}})
