"""What is written around the screens of a tape: text that fills, or what a program wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import sglang as sgl
from sglang.lang.interpreter import ProgramState

from agentserve.bench.worker import BenchWorker
from agentserve.lang import screen
from agentserve.lang.expressions import ScreenView
from agentserve.lang.registry import Program
from agentserve.lang.turns import feedback
from agentserve.replay import Turn

ANSWER_TOKENS = 8
SPARE_TOKENS = 64
"""Of the context, for roles and markers around a turn's text."""
PROGRAM_TOKENS = 1024
"""Of the context, for what a program writes in a turn."""


class Script(Protocol):
    """Runs a session's turns, as a program does."""

    def write(self, state: ProgramState, view: ScreenView) -> None:
        """Write the turn ``view.turn``, calls included."""

    def tokens(self, turn: int) -> int:
        """Most tokens that the turn adds beside its screen."""


@dataclass(frozen=True)
class Texts:
    """Lengths of the text around the screens, in tokens."""

    system: int = 800
    turn: int = 120


@dataclass(frozen=True)
class Filler:
    """Words without a meaning, and a short answer a turn."""

    worker: BenchWorker
    texts: Texts
    seed: str
    """Of a turn's words; the system text is the same for all."""
    said: Sequence[str] | None = None
    """What stands before the answer of each turn."""

    def write(self, state: ProgramState, view: ScreenView) -> None:
        if view.turn == 0:
            state += sgl.system(self.worker.text_of(self.texts.system, "system"))
        text = self.worker.text_of(self.texts.turn, f"{self.seed} {view.turn}")
        state += sgl.user_begin() + screen(view) + text + sgl.user_end() + sgl.assistant_begin()
        if self.said is not None:
            state += self.said[view.turn]
        state += sgl.gen("answer", max_tokens=ANSWER_TOKENS, temperature=0)

    def tokens(self, turn: int) -> int:
        system = self.texts.system if turn == 0 else 0
        return system + self.texts.turn + ANSWER_TOKENS + SPARE_TOKENS


@dataclass(frozen=True)
class Recorded:
    """A recording's program, asked and told what it was then."""

    program: Program
    task: str
    turns: Sequence[Turn]

    def write(self, state: ProgramState, view: ScreenView) -> None:
        step = self.turns[view.turn].step
        first = view.turn == 0
        if first:
            self.program.begin.func(state, task=self.task, **self.program.begin.bind_arguments)
        default = self.task if first else ""
        instruction = default if step.instruction is None else step.instruction
        self.program.turn.func(
            state,
            view=view,
            instruction=instruction,
            feedback=feedback(step.outcome_sent),
            **self.program.turn.bind_arguments,
        )

    def tokens(self, turn: int) -> int:
        return PROGRAM_TOKENS
