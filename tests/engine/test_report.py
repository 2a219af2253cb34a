"""The worker's two routes: in an app of their own, and on a real worker."""

import hashlib

import httpx
from fastapi import FastAPI

from agentserve.core.families import family_of
from agentserve.core.workers import WorkerReport
from agentserve.engine.boot import Boot
from agentserve.engine.compat import CACHE_TARGET, SGLANG_VERSION, ServerFacts
from agentserve.engine.plugin import HOOKS
from agentserve.engine.report import report_routes, worker_report

FACTS = ServerFacts(
    model="/models/m",
    served_model_name="m",
    architecture="Qwen2_5_VLForConditionalGeneration",
    context_length=1000,
    max_total_tokens=2000,
    page_size=1,
    layers=28,
    device="cpu",
    tokenizer_json='{"model": "é"}',
)


async def test_routes():
    report = worker_report(Boot("b-1"), FACTS, "0.5.23", [("sglang.x", "after")])
    app = FastAPI()
    app.include_router(report_routes(report, FACTS.tokenizer_json))
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://worker"
    ) as client:
        answer = await client.get("/agentserve")
        tokenizer = await client.get("/agentserve/tokenizer")
    assert WorkerReport.model_validate(answer.json()) == report
    assert (report.boot_id, report.hooks[0].target) == ("b-1", "sglang.x")
    assert not report.releases  # SGLang's own prefix cache
    assert tokenizer.text == FACTS.tokenizer_json
    assert hashlib.sha256(tokenizer.content).hexdigest() == report.tokenizer_sha256


async def test_a_real_worker_reports_itself(workers: list[str]):
    async with httpx.AsyncClient() as client:
        answers = [(await client.get(f"{url}/agentserve")).json() for url in workers]
        tokenizer = await client.get(f"{workers[0]}/agentserve/tokenizer")
    first, second = (WorkerReport.model_validate(answer) for answer in answers)
    assert first.boot_id != second.boot_id
    assert first.tokenizer_sha256 == second.tokenizer_sha256
    assert hashlib.sha256(tokenizer.content).hexdigest() == first.tokenizer_sha256
    assert first.sglang_version == SGLANG_VERSION
    hooks = [*((hook.target, hook.kind) for hook in HOOKS), (CACHE_TARGET, "register")]
    assert [(hook.target, hook.kind) for hook in first.hooks] == hooks
    assert first.releases
    assert family_of(first.architecture).grid == 28
    assert (first.served_model_name, first.device, first.page_size) == ("nano", "cpu", 1)
    assert first.context_length == 32_768
    assert first.max_total_tokens >= first.context_length
