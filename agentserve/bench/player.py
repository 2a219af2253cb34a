"""One session of a tape: planned as the router plans, run as a program host runs it, measured at
the worker."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from sglang.lang.interpreter import ProgramState
from sglang.lang.ir import SglSamplingParams

from agentserve.bench.calls import Call, Calls
from agentserve.bench.scripts import Script
from agentserve.bench.tape import Tape
from agentserve.bench.worker import BenchWorker
from agentserve.core.blobs import sha256_of
from agentserve.core.model import Wire
from agentserve.core.plans import Piece, Plan, Sha256, VisualItem, num_tokens
from agentserve.core.sessions import ScreenPolicy
from agentserve.lang.backend import SessionBackend
from agentserve.lang.executor import SessionExecutor
from agentserve.lang.expressions import ACTION_TOKENS, ScreenView
from agentserve.lang.prompt import Prompt
from agentserve.vision.cells import CutScreen, as_pixels, cut
from agentserve.vision.layouts import Layout
from agentserve.vision.mosaic import Held, Limits, MosaicSettings, held_after, plan_mosaic
from agentserve.vision.policies import check_policy, check_thinning, parse_policy, plan_prompt
from agentserve.vision.settle import covered_mask
from agentserve.vision.thinning import Wishes


class TurnFigures(Wire):
    """What a turn cost, by its first call, which brings the screen. All are tokens unless said
    otherwise."""

    prompt: int
    cached: int
    expected: int
    """What a worker that lost nothing has of the prompt: the prompt up to the new screen."""
    visual: int
    """Visual tokens of the prompt, those that this turn supersedes included."""
    held: int
    """What the next prompt begins with."""
    visual_held: int
    """Of it, visual tokens."""
    sent: int
    """Visual tokens of what the turn showed anew, those that a pruning took included."""
    kept: int
    """Of these, held."""
    shared: int
    """Of the new screen, in static cells of the surface."""
    shared_cached: int
    """Of these, found in the cache."""
    freed: int
    """KV slots that the eviction after the answer freed."""
    encoded: int | None
    """Pictures that the vision encoder saw in this turn; None when the worker does not tell."""
    flops: int | None
    """That the language model took for the prompt; None when the worker does not tell."""
    unchosen: str | None
    """Why a pruning, or an eviction by attention, was not done."""
    ttft_ms: float
    move: str | None

    @property
    def prefilled(self) -> int:
        return self.prompt - self.cached


@dataclass(frozen=True)
class Played:
    """A turn that was played."""

    figures: TurnFigures
    calls: Sequence[Call]


class SessionPlayer:
    """Plays one session, turn by turn."""

    def __init__(
        self,
        worker: BenchWorker,
        screens: ScreenPolicy,
        tape: Tape,
        owner: str,
        script: Script,
        layout: Layout,
    ) -> None:
        """Raises InvalidRequest when the worker's model cannot run the policy."""
        self._worker = worker
        self._policy = parse_policy(screens.policy)
        self._cell = check_policy(self._policy, worker.family, screens.cell)
        self._compression = screens.compression
        check_thinning(self._policy, self._compression, worker.family, worker.report.layers)
        grid = worker.family.grid
        self._settings = MosaicSettings(grid, screens.positions, screens.vision_context)
        self._tape = tape
        self._owner = owner
        self._script = script
        self._layout = layout
        self._held = Held()
        self._blobs: dict[Sha256, str] = {}

    def turn(self, number: int, forced: Sequence[Call] = ()) -> Played:
        """Play the tape's turn ``number``; turns are played in order, from 0. ``forced``: calls
        with whose answers the session goes on, whatever the model says."""
        plan, screen = self._plan(number)
        prompt = Prompt(
            plan.prior,
            self._worker.tokenizer,
            self._worker.family,
            mosaic_of=self._owner if self._policy.mosaic else None,
            compression=self._compression,
        )
        made, pieces = self._run(prompt, plan, number, forced)
        if screen is None:
            self._held = Held(pieces=[*plan.prior, *pieces])
        else:
            grid = self._worker.family.grid
            self._held = held_after(plan, pieces, self._held, screen, number, grid)
        return Played(self._figures(plan, pieces, number, made[0]), made)

    def _run(
        self, prompt: Prompt, plan: Plan, number: int, forced: Sequence[Call]
    ) -> tuple[list[Call], list[Piece]]:
        """Let the script write the turn: its calls, and what it adds to the session."""
        calls = Calls(self._worker, forced)
        backend = SessionBackend(calls, prompt, self._blobs, ACTION_TOKENS)
        executor = SessionExecutor(backend, prompt)
        items = tuple(plan.screen)
        view = ScreenView(space=self._tape.space, items=items, turn=number)
        self._script.write(ProgramState(executor), view)
        made, pieces = list(calls.made), prompt.pieces()
        if forced and made[-1].ids != forced[-1].ids:
            # What another session said has to be computed. It costs this call, not the next turn.
            backend.generate(executor, SglSamplingParams(max_new_tokens=1, temperature=0))
        return made, pieces

    def _figures(self, plan: Plan, pieces: Sequence[Piece], number: int, call: Call) -> TurnFigures:
        grid = self._worker.family.grid
        held = list(self._held.pieces)
        prompt, cached = call.meta["prompt_tokens"], call.meta["cached_tokens"]
        before = takewhile(lambda piece: not isinstance(piece, VisualItem), pieces)
        begin = num_tokens([*plan.prior, *before]) + 1  # the begin marker of the screen
        shared = sum(item.tokens for item in plan.screen if item.shared)
        sources = call.outcome.get("sources")
        return TurnFigures(
            prompt=prompt,
            cached=cached,
            expected=num_tokens(plan.prior) if plan.move is None else 0,
            visual=plan.visual_tokens,
            held=num_tokens(held),
            visual_held=_visual(held),
            sent=sum(int(covered_mask(item, grid).sum()) for item in plan.screen),
            kept=_visual([p for p in held if isinstance(p, VisualItem) and p.turn == number]),
            shared=shared,
            shared_cached=max(0, min(shared, cached - begin)),
            freed=call.outcome.get("freed", 0),
            encoded=None if sources is None else sources.count("encoder"),
            flops=call.outcome.get("prefill_flops"),
            unchosen=call.outcome.get("unchosen"),
            ttft_ms=call.ttft_ms,
            move=plan.move,
        )

    def _plan(self, number: int) -> tuple[Plan, CutScreen | None]:
        space, image = self._tape.space, self._tape.screens[number]
        budget = self._worker.report.context_length - self._script.tokens(number)
        blob = sha256_of(image)
        if self._cell is None:
            self._blobs[blob] = base64.b64encode(image).decode()
            item = VisualItem(blob=blob, size=space.model, tokens=space.visual_tokens, turn=number)
            return plan_prompt(self._policy, self._held.pieces, [item], budget), None
        screen = cut(as_pixels(image), self._cell)
        limits = Limits(tokens=budget, positions=budget)
        wishes = Wishes(self._compression, aimed=self._tape.aimed(number))
        planned = plan_mosaic(
            self._settings, self._held, screen, number, limits, self._layout, wishes
        )
        for name, png in planned.pictures.items():
            self._blobs[name] = base64.b64encode(png).decode()
        return planned.plan, screen


def _visual(pieces: Sequence[Piece]) -> int:
    return sum(piece.tokens for piece in pieces if isinstance(piece, VisualItem))
