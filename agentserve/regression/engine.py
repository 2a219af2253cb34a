"""Mode ``engine``: a recording's prompts on two workers, or under two settings of one, compared
token by token. Both sides go on from what the first one answers: so their prompts are equal."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentserve.bench.calls import Call
from agentserve.bench.player import Played, SessionPlayer
from agentserve.bench.scripts import Recorded, Script
from agentserve.bench.tape import Tape, tape_of
from agentserve.bench.worker import BenchWorker
from agentserve.core.sessions import ScreenPolicy, Usage
from agentserve.lang.registry import Registry
from agentserve.replay import Recording, Replayed
from agentserve.replay.bundle.reader import AgentRun
from agentserve.replay.compare.engine import EngineRule, EngineTurn, engine_differences, ratios
from agentserve.replay.modes.reporting import report_of
from agentserve.replay.results import OnStep, Side, StepReport
from agentserve.vision.layouts import Layout


@dataclass(frozen=True)
class EngineSide:
    """A worker, and how the screens are sent to it."""

    name: str
    worker: BenchWorker
    """That tells logprobs."""
    screens: ScreenPolicy | None = None
    """None: as the recorded session's."""


def replay_engine(
    first: EngineSide,
    second: EngineSide,
    recording: Recording,
    programs: Registry,
    *,
    rule: EngineRule | None = None,
    on_step: OnStep | None = None,
) -> Replayed:
    """Play the recorded session on ``first``, then on ``second``, each on an empty prefix cache.

    Blocking. The report's recorded side is ``first``. Raises RecordingError for a recording that no
    agent of ours made, UnknownProgram, InvalidRequest when a worker's model cannot do it, and what
    the workers' clients raise.
    """
    begun = time.perf_counter()
    run = recording.agent()
    # settings are compared under one rule: what they send to the worker differs on purpose
    same_settings = first.screens == second.screens
    rule = rule or EngineRule(cached=same_settings)
    script = Recorded(programs.get(run.session.program), run.session.task, run.turns)
    ones = _play(first, recording, run, script, (), lambda: None)
    others: list[Played] = []
    steps: list[StepReport] = []

    def compared() -> None:
        index = len(steps)
        one, other = (_turn(played) for played in (ones[index], others[index]))
        differences = engine_differences(one, other, rule)
        if not same_settings:
            differences = [d for d in differences if d.field != "usage.prompt_tokens"]
        shot = run.turns[index].screenshot
        steps.append(
            StepReport(
                index=index,
                recorded=_side(ones[index], shot),
                replayed=_side(others[index], shot),
                same=not differences,
                differences=differences,
            )
        )
        if on_step is not None:
            on_step(steps[-1])

    _play(second, recording, run, script, ones, compared, others)
    pairs = ([_turn(played) for played in side] for side in (ones, others))
    told = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios(*pairs).items())
    report = report_of(
        recording,
        "engine",
        steps,
        recorded_steps=len(run.turns),
        settings={
            "first": first.name,
            "second": second.name,
            "tokens": str(sum(len(_turn(played).tokens) for played in ones)),
            "log-probabilities": str(sum(len(_turn(played).logprobs) for played in ones)),
        },
        notes=[f"times of the second side, as a share of the first's: {told}"] if told else [],
        seconds=time.perf_counter() - begun,
    )
    return Replayed(report, recording)


def _play(
    side: EngineSide,
    recording: Recording,
    run: AgentRun,
    script: Script,
    forced: Sequence[Played],
    done: Callable[[], None],
    turns: list[Played] | None = None,
) -> list[Played]:
    tape: Tape = tape_of(recording, side.worker.family.grid)
    turns = [] if turns is None else turns
    side.worker.flush()
    player = SessionPlayer(
        side.worker,
        side.screens or run.session,
        tape,
        f"engine-{side.name}-{recording.meta.id}",
        script,
        Layout(),
    )
    for number in range(len(tape.screens)):
        calls: Sequence[Call] = forced[number].calls if forced else ()
        turns.append(player.turn(number, calls))
        done()
    return turns


def _turn(played: Played) -> EngineTurn:
    """All calls of a turn as one output."""
    told = [
        entry[: len(call.ids)]
        for call in played.calls
        for entry in [call.meta.get("output_token_logprobs") or ()]
    ]
    return EngineTurn(
        tokens=tuple(i for call in played.calls for i in call.ids),
        logprobs=tuple(float(one[0]) for entries in told for one in entries),
        texts=tuple(str(one[2] or one[1]) for entries in told for one in entries),
        prompt_tokens=played.figures.prompt,
        cached_tokens=played.figures.cached,
        times_ms={"first token": played.figures.ttft_ms},
    )


def _side(played: Played, screenshot: str) -> Side:
    figures = played.figures
    return Side(
        screenshot=screenshot,
        text="".join(str(call.answer.get("text", "")) for call in played.calls),
        usage=Usage(
            prompt_tokens=figures.prompt,
            cached_tokens=figures.cached,
            visual_tokens=figures.visual,
            completion_tokens=sum(len(call.ids) for call in played.calls),
            prefilled_tokens=figures.prefilled,
            sent_tokens=figures.sent,
        ),
        ms=figures.ttft_ms,
    )
