"""Running one turn of a program: from the wire form to the wire form, nothing kept in between."""

from __future__ import annotations

import base64
import logging
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from sglang.lang.interpreter import ProgramState

from agentserve.core.blobs import read_picture
from agentserve.core.deadlines import Deadline
from agentserve.core.errors import ProgramFailed, Unavailable, UnknownBlob, WorkerRefused
from agentserve.core.families import family_named
from agentserve.core.hosting import HostAnswer, HostTurn, HostWarming
from agentserve.core.plans import Piece, VisualItem
from agentserve.core.sessions import CallUsage, Outcome
from agentserve.lang.backend import SessionBackend, call_usage
from agentserve.lang.executor import SessionExecutor
from agentserve.lang.expressions import ScreenView
from agentserve.lang.http import WorkerHttp
from agentserve.lang.prompt import Prompt, prefix_input
from agentserve.lang.registry import Program, Registry
from agentserve.lang.tokenizer import TokenizerCache
from agentserve.lang.worker import WorkerClient

log = logging.getLogger(__name__)

_FEEDBACK = {
    "invalid": "Your last answer was no valid action: {}",
    "failed": "Your last action failed: {}",
    "ok": "{}",
}


@dataclass(frozen=True)
class TurnRunner:
    """Runs turns, any number of them at once in different threads."""

    registry: Registry
    blobs: Path
    http: WorkerHttp
    tokenizers: TokenizerCache = field(default_factory=TokenizerCache)

    def run(self, turn: HostTurn, deadline: Deadline) -> HostAnswer:
        """Raises UnknownProgram, UnknownBlob, WorkerLost, WorkerRefused, TurnTimeout and
        ProgramFailed."""
        deadline.remaining()  # a turn may have waited for its thread until now
        program = self.registry.get(turn.program)
        worker = WorkerClient(
            self.http, turn.worker_url, deadline, turn.cache_salt, turn.session_id
        )
        tokenizer = self.tokenizers.get(turn.tokenizer_sha256, worker.tokenizer_json)
        prompt = Prompt(
            turn.plan.prior,
            tokenizer,
            family_named(turn.family),
            mosaic_of=turn.session_id if turn.plan.mosaic else None,
            forked=turn.plan.forked,
            compression=turn.compression,
        )
        images = self._images(turn.tenant, [*turn.plan.prior, *turn.plan.screen], turn.handed)
        backend = SessionBackend(worker, prompt, images, turn.max_turn_tokens)
        executor = SessionExecutor(backend, prompt)
        _execute(program, turn, ProgramState(executor))
        name = executor.action_name
        return HostAnswer(
            pieces=prompt.pieces(),
            text="\n".join(executor.generated),
            variables={k: str(v) for k, v in executor.variables.items() if isinstance(k, str)},
            action_text=None if name is None else str(executor.variables[name]),
            calls=backend.calls,
            resend_thin=executor.look_again,
        )

    def warm(self, warming: HostWarming, deadline: Deadline) -> CallUsage:
        """Raises UnknownBlob, WorkerLost, WorkerRefused and TurnTimeout."""
        deadline.remaining()
        worker = WorkerClient(
            self.http, warming.worker_url, deadline, warming.cache_salt, warming.session_id
        )
        tokenizer = self.tokenizers.get(warming.tokenizer_sha256, worker.tokenizer_json)
        prompt = prefix_input(warming.pieces, tokenizer, family_named(warming.family))
        body = {
            "input_ids": prompt.ids,
            "sampling_params": {"max_new_tokens": 0, "temperature": 0},
        }
        if prompt.blobs:
            body["image_data"] = prompt.pictures(self._images(warming.tenant, warming.pieces))
        return call_usage(worker.generate(body)[0]["meta_info"])

    def _images(
        self, tenant: str, pieces: Iterable[Piece], handed: Path | None = None
    ) -> dict[str, str]:
        """Base64 of every picture among the pieces, by blob."""
        images: dict[str, str] = {}
        for piece in pieces:
            if isinstance(piece, VisualItem) and piece.blob not in images:
                try:
                    data = read_picture(self.blobs, tenant, piece.blob, handed)
                except FileNotFoundError:
                    raise UnknownBlob(
                        f"the screen with SHA-256 {piece.blob} is not in the blob folder",
                        hint="the router's data folder has lost a file",
                    ) from None
                images[piece.blob] = base64.b64encode(data).decode()
        return images


def feedback(outcome: Outcome | None) -> str:
    """The sentence that a program gets about the last action; empty when there is none."""
    if outcome is None or (outcome.status == "ok" and not outcome.message):
        return ""
    return _FEEDBACK[outcome.status].format(outcome.message or "no reason was given")


def _execute(program: Program, turn: HostTurn, state: ProgramState) -> None:
    items = tuple(turn.plan.screen)
    view = ScreenView(space=turn.space, items=items, turn=turn.turn)
    try:
        if turn.first:
            program.begin.func(state, task=turn.task, **program.begin.bind_arguments)
        program.turn.func(
            state,
            view=view,
            instruction=turn.instruction,
            feedback=feedback(turn.outcome),
            **program.turn.bind_arguments,
        )
    except (Unavailable, WorkerRefused):
        raise
    except (Exception, SystemExit) as error:  # the edge to foreign code: it may raise anything
        log.warning(
            "program %s failed in session %s, request %s",
            program.info.name, turn.session_id, turn.request_id, exc_info=True,
        )  # fmt: skip
        raise ProgramFailed(
            f"{_place(error, program.path)}: {type(error).__name__}: {error}",
            hint=getattr(error, "hint", "") or "the program host's log has the whole traceback",
        ) from error


def _place(error: BaseException, path: Path) -> str:
    """``file.py line 12``: where in the program's file the error came out."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    return f"{path.name} line {lines[-1]}" if lines else path.name
