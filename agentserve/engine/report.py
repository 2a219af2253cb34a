"""What a worker tells of itself: ``GET /agentserve`` and ``GET /agentserve/tokenizer``."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fastapi import APIRouter, Response

import agentserve
from agentserve.core.workers import HookReport, WorkerReport
from agentserve.engine.boot import CACHE, Boot

if TYPE_CHECKING:
    from agentserve.engine.compat import ServerFacts


def worker_report(
    boot: Boot, facts: ServerFacts, sglang_version: str, hooks: Sequence[tuple[str, str]]
) -> WorkerReport:
    """``hooks`` are (target, kind) of every hook, all of them in place."""
    return WorkerReport(
        version=agentserve.__version__,
        sglang_version=sglang_version,
        boot_id=boot.boot_id,
        hooks=[HookReport(target=target, kind=kind) for target, kind in hooks],
        model=facts.model,
        served_model_name=facts.served_model_name,
        architecture=facts.architecture,
        context_length=facts.context_length,
        max_total_tokens=facts.max_total_tokens,
        page_size=facts.page_size,
        layers=facts.layers,
        device=facts.device,
        tokenizer_sha256=hashlib.sha256(facts.tokenizer_json.encode()).hexdigest(),
        releases=facts.cache == CACHE,
    )


def report_routes(report: WorkerReport, tokenizer_json: str) -> APIRouter:
    """The two routes; both answers are fixed for the life of the process."""
    router = APIRouter(prefix="/agentserve", tags=["agentserve"])

    @router.get("")
    async def worker() -> WorkerReport:
        return report

    @router.get("/tokenizer")
    async def tokenizer() -> Response:
        return Response(
            tokenizer_json,
            media_type="application/json",
            headers={"etag": f'"{report.tokenizer_sha256}"'},
        )

    return router
