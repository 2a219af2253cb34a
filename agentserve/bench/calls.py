"""The calls of one turn: measured, and answered as another session's were if told so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentserve.bench.worker import BenchWorker
from agentserve.core.errors import InvalidRequest


@dataclass(frozen=True)
class Call:
    """One call and its answer."""

    answer: dict[str, Any]
    """SGLang's."""
    ids: tuple[int, ...]
    """What the model wrote, as far as it counts; a token that stopped it is with them."""
    ttft_ms: float

    @property
    def meta(self) -> dict[str, Any]:
        return self.answer["meta_info"]

    @property
    def outcome(self) -> dict[str, Any]:
        """What the plugin told of it; empty when there was no picture."""
        return self.meta.get("agentserve") or {}


class Calls:
    """Stands before the worker in a turn's backend (lang.backend).

    With ``forced``, the calls of the same turn elsewhere, the model is asked all the same, but the
    turn goes on with their answers: so do two sessions stay comparable after they disagreed.
    """

    def __init__(self, worker: BenchWorker, forced: Sequence[Call] = ()) -> None:
        self.made: list[Call] = []
        self._worker = worker
        self._forced = forced

    def generate(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        """As lang.worker.WorkerClient. Raises InvalidRequest for several prompts at once."""
        if isinstance(body["input_ids"][0], list):
            raise InvalidRequest("a benchmark plays no program that selects (sgl.select)")
        answer, ttft_ms = self._worker.generate(body)
        # the backend asks for a token more than it wants: see SessionBackend.generate
        wanted = body["sampling_params"]["max_new_tokens"] - 1
        number = len(self.made)
        self.made.append(Call(answer, tuple(answer["output_ids"][:wanted]), ttft_ms))
        if number >= len(self._forced):
            return [answer]
        other = self._forced[number]
        meta = answer["meta_info"] | {"finish_reason": other.meta["finish_reason"]}
        return [{**other.answer, "meta_info": meta}]
