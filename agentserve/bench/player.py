"""One session of a tape under one policy: planned as the router plans, sent as a program host
sends, measured at the worker."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

from agentserve.bench.tape import Tape
from agentserve.bench.worker import BenchWorker
from agentserve.core.blobs import sha256_of
from agentserve.core.item_urls import item_url
from agentserve.core.model import Wire
from agentserve.core.plans import Piece, Plan, Sha256, VisualItem, num_tokens
from agentserve.core.sessions import ScreenPolicy
from agentserve.lang.prompt import Prompt
from agentserve.vision.cells import CutScreen, as_pixels, cut
from agentserve.vision.layouts import Layout
from agentserve.vision.mosaic import Held, Limits, MosaicSettings, held_after, plan_mosaic
from agentserve.vision.policies import check_policy, parse_policy, plan_prompt

ANSWER_TOKENS = 8
SPARE_TOKENS = 64
"""Of the context, for roles and markers around a turn's text."""


class TurnFigures(Wire):
    """What a turn cost. All are tokens unless said otherwise."""

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
    shared: int
    """Of the new screen, in static cells of the surface."""
    shared_cached: int
    """Of these, found in the cache."""
    freed: int
    encoded: int | None
    """Pictures that the vision encoder saw in this turn; None when the worker does not tell."""
    ttft_ms: float
    move: str | None

    @property
    def prefilled(self) -> int:
        return self.prompt - self.cached


@dataclass(frozen=True)
class Texts:
    """Lengths of the text around the screens, in tokens."""

    system: int = 800
    turn: int = 120


class SessionPlayer:
    """Plays one session, turn by turn."""

    def __init__(
        self,
        worker: BenchWorker,
        screens: ScreenPolicy,
        tape: Tape,
        owner: str,
        texts: Texts,
        layout: Layout,
    ) -> None:
        """Raises InvalidRequest when the worker's model cannot run the policy."""
        self._worker = worker
        self._policy = parse_policy(screens.policy)
        self._cell = check_policy(self._policy, worker.family, screens.cell)
        grid = worker.family.grid
        self._settings = MosaicSettings(grid, screens.positions, screens.vision_context)
        self._tape = tape
        self._owner = owner
        self._texts = texts
        self._layout = layout
        self._held = Held()
        self._blobs: dict[Sha256, str] = {}

    def turn(self, number: int) -> TurnFigures:
        """Play the tape's turn ``number``; turns are played in order, from 0."""
        image = self._tape.screens[number]
        plan, screen = self._plan(image, number)
        prompt = Prompt(
            plan.prior,
            self._worker.tokenizer,
            self._worker.family,
            mosaic_of=self._owner if self._policy.mosaic else None,
        )
        self._write_before(prompt, number)
        before = num_tokens([*plan.prior, *prompt.pieces()]) + 1  # the begin marker of the screen
        self._write_turn(prompt, plan, number)
        sent = prompt.call_input()
        urls = [self._blobs[blob] for blob in sent.blobs]
        if sent.metas is not None:
            urls = list(map(item_url, sent.metas, urls))
        answer = self._worker.generate(sent.ids, urls, ANSWER_TOKENS)
        prompt.generated(answer.ids, self._worker.tokenizer.decode(answer.ids))
        pieces = prompt.pieces()
        if screen is None:
            self._held = Held(pieces=[*plan.prior, *pieces])
        else:
            grid = self._worker.family.grid
            self._held = held_after(plan, pieces, self._held, screen, number, grid)
        return TurnFigures(
            prompt=answer.prompt_tokens,
            cached=answer.cached_tokens,
            expected=num_tokens(plan.prior) if plan.move is None else 0,
            visual=plan.visual_tokens,
            held=num_tokens(list(self._held.pieces)),
            visual_held=_visual(self._held.pieces),
            shared=(shared := sum(item.tokens for item in plan.screen if item.shared)),
            shared_cached=max(0, min(shared, answer.cached_tokens - before)),
            freed=answer.freed,
            encoded=answer.encoded,
            ttft_ms=answer.ttft_ms,
            move=plan.move,
        )

    def _plan(self, image: bytes, number: int) -> tuple[Plan, CutScreen | None]:
        space = self._tape.space
        budget = (
            self._worker.report.context_length
            - self._texts.turn
            - (self._texts.system if number == 0 else 0)
            - ANSWER_TOKENS
            - SPARE_TOKENS
        )
        blob = sha256_of(image)
        if self._cell is None:
            self._blobs[blob] = base64.b64encode(image).decode()
            item = VisualItem(blob=blob, size=space.model, tokens=space.visual_tokens, turn=number)
            return plan_prompt(self._policy, self._held.pieces, [item], budget), None
        screen = cut(as_pixels(image), self._cell)
        limits = Limits(tokens=budget, positions=budget)
        planned = plan_mosaic(self._settings, self._held, screen, number, limits, self._layout)
        for name, png in planned.pictures.items():
            self._blobs[name] = base64.b64encode(png).decode()
        return planned.plan, screen

    def _write_before(self, prompt: Prompt, number: int) -> None:
        if number == 0:
            prompt.begin_message("system")
            prompt.text(self._worker.text_of(self._texts.system, "system"))
            prompt.end_message()
        prompt.begin_message("user")

    def _write_turn(self, prompt: Prompt, plan: Plan, number: int) -> None:
        prompt.screen(tuple(plan.screen))
        text = self._worker.text_of(self._texts.turn, f"{self._owner} {number}")
        prompt.text(text)
        prompt.end_message()
        prompt.begin_message("assistant")
        if self._tape.texts is not None:
            prompt.text(self._tape.texts[number])


def _visual(pieces: Sequence[Piece]) -> int:
    return sum(piece.tokens for piece in pieces if isinstance(piece, VisualItem))
