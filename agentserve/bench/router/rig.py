"""A router over scripted workers, all of them processes, for the probes."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from agentserve.bench.router.probed import SCRIPT, SEEN, Script, Seen, name_of
from agentserve.bench.router.processes import Server, free_port, module
from agentserve.bench.router.targets import KEY_HEADER, Running, Target, launch

WORKERS = 3
CHAT = "/v1/chat/completions"
MODEL = "fake-vl"
ANSWER_TIMEOUT_S = 20.0


@dataclass
class ProbeRig:
    router: Running
    workers: dict[str, Server]
    """By the name that each answers with."""
    http: httpx.AsyncClient

    async def ask(self, key: str, text: str = "What next?") -> str | None:
        """The worker that answers the session named ``key``; None for an error."""
        answer = await self.post(chat(text), {KEY_HEADER: key})
        return worker_in(answer) if answer.status_code == 200 else None

    async def post(self, body: dict[str, Any], headers: Mapping[str, str]) -> httpx.Response:
        return await self.http.post(self.router.server.url + CHAT, json=body, headers=headers)

    async def script(self, script: Script) -> None:
        """For all workers that live."""
        for worker in self.workers.values():
            if worker.running:
                await self.http.put(worker.url + SCRIPT, content=script.model_dump_json())

    async def seen(self) -> list[Seen]:
        """What each worker got last."""
        answers = [await self.http.get(worker.url + SEEN) for worker in self.workers.values()]
        return [Seen.model_validate_json(a.content) for a in answers if a.status_code == 200]

    async def restart(self, worker: Server) -> None:
        """Bring a killed worker back in a new life; returns once it answers."""
        await worker.start()
        await _until_answers(worker, self.http)


@asynccontextmanager
async def scripted_workers(folder: Path) -> AsyncIterator[dict[str, Server]]:
    """The workers of all probes, by the name that each answers with. ``folder`` must exist."""
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(httpx.AsyncClient(trust_env=False))
        workers = {}
        for _ in range(WORKERS):
            port = free_port()
            command = module("agentserve.bench.router.probed", str(port))
            server = Server(command, port, folder / f"worker-{port}.log")
            workers[name_of(port)] = await stack.enter_async_context(server)
        await asyncio.gather(*(_until_answers(one, http) for one in workers.values()))
        yield workers


@asynccontextmanager
async def probe_rig(
    target: Target, workers: dict[str, Server], folder: Path, options: Sequence[str] = ()
) -> AsyncIterator[ProbeRig]:
    """A new router over the workers, which are all alive and have no script, before the probe and
    after it. Raises Unavailable when it does not start."""
    async with httpx.AsyncClient(trust_env=False, timeout=ANSWER_TIMEOUT_S) as http:
        router = launch(
            target, [worker.url for worker in workers.values()], folder, options=options
        )
        rig = ProbeRig(router, workers, http)
        async with router.server:
            await router.until_ready(http)
            yield rig
        for worker in workers.values():
            if not worker.running:
                await rig.restart(worker)
        await rig.script(Script())


async def _until_answers(worker: Server, http: httpx.AsyncClient) -> None:
    async def answers() -> bool:
        try:
            return (await http.get(f"{worker.url}/health")).status_code == 200
        except httpx.TransportError:
            return False

    await worker.until(answers)


def chat(text: str, picture: bytes | None = None, **fields: Any) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": text}]
    if picture is not None:
        url = f"data:image/png;base64,{base64.b64encode(picture).decode()}"
        content.append({"type": "image_url", "image_url": {"url": url}})
    return {"model": MODEL, "messages": [{"role": "user", "content": content}], **fields}


def worker_in(answer: httpx.Response) -> str:
    """The worker whose answer it is."""
    return answer.json()["choices"][0]["message"]["content"]
