"""A worker without a model: the HTTP of an SGLang worker with the agentserve plugin, answers from a
script, and a prefix cache that counts as a real one does."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import itertools
import json
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal, Self

from PIL import Image
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from agentserve import __version__
from agentserve.core.families import family_of
from agentserve.core.workers import HookReport, KvRelease, KvReleased, WorkerReport
from agentserve.testing.server import LoopbackServer

Fault = Literal["die", "die_midway", "hang", "drop", "refuse", "error"]
_lives = itertools.count(1)


class FakeWorker:
    """``async with FakeWorker() as worker: … worker.url``

    ``answers`` are given in order, the last one for good. ``faults`` are used up, one a generation:

    - ``die``: the worker is killed before it answers; ``restart`` brings it back, cold
    - ``die_midway``: killed behind the first chunk of a streamed answer
    - ``hang``: no answer until the client leaves, or the worker is killed or stopped
    - ``drop``: the connection breaks off without an answer, the worker lives on
    - ``refuse``, ``error``: status 400, 500

    ``requests`` are the bodies of the generations it got, with their ``headers``; ``aborted`` are
    those whose clients left before the answer; ``released`` are the bodies of the releases of KV.
    Text takes one token a byte.
    """

    def __init__(
        self,
        answers: Sequence[str] = ("click 10 10",),
        *,
        model: str = "fake-vl",
        architecture: str = "Qwen2_5_VLForConditionalGeneration",
        context_length: int = 32_768,
        page_size: int = 1,
        version: str = __version__,
        plugin: bool = True,
        releases: bool = True,
        image_pad_id: int = 151_655,
        tokenizer: str = "{}",
        port: int = 0,
    ) -> None:
        self.answers = deque(answers)
        self.faults: deque[Fault] = deque()
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.aborted: list[dict[str, Any]] = []
        self.released: list[dict[str, Any]] = []
        self.release_delay_s: float | None = 0.0
        """How long a release takes; None: for ever."""
        self.delay_s = 0.0
        self.pace_s = 0.0
        """Time between two chunks of a streamed answer."""
        self.starting = False
        """While True, ``/health`` answers 503."""
        self.boot_id = ""
        self._model = model
        self._architecture = architecture
        self._grid = family_of(architecture).grid
        self._context_length = context_length
        self._page_size = page_size
        self._version = version
        self._plugin = plugin
        self._releases = plugin and releases
        self._image_pad_id = image_pad_id
        self._tokenizer = tokenizer
        self._caches: defaultdict[str, set[tuple[int, ...]]] = defaultdict(set)
        """By cache salt."""
        self._owned: defaultdict[str, set[tuple[str, tuple[int, ...]]]] = defaultdict(set)
        """What each session has in them: (salt, prompt with its answer)."""
        self._owners: Counter[tuple[str, tuple[int, ...]]] = Counter()
        self._server = LoopbackServer(self._app(), port=port, lifespan=False)

    @property
    def url(self) -> str:
        return self._server.url

    async def start(self) -> None:
        self.boot_id = f"boot-{next(_lives)}"
        self._caches.clear()
        self._owned.clear()
        self._owners.clear()
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop()

    async def kill(self) -> None:
        """Die as by kill -9: connections are reset, the port refuses."""
        await self._server.kill()

    async def restart(self) -> None:
        """Come back on the same port in a new, cold life."""
        await self.kill()
        await self.start()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill()

    def report(self) -> WorkerReport:
        """What the plugin would say."""
        return WorkerReport(
            version=self._version,
            sglang_version="0.5.23",
            boot_id=self.boot_id,
            hooks=[HookReport(target="fake", kind="around")],
            model=f"models/{self._model}",
            served_model_name=self._model,
            architecture=self._architecture,
            context_length=self._context_length,
            max_total_tokens=4 * self._context_length,
            page_size=self._page_size,
            layers=6,
            device="cpu",
            tokenizer_sha256=hashlib.sha256(self._tokenizer.encode()).hexdigest(),
            releases=self._releases,
        )

    # routes

    def _app(self) -> Starlette:
        routes = [
            Route("/health", self._health),
            Route("/generate", self._generate, methods=["POST"]),
            Route("/v1/chat/completions", self._chat, methods=["POST"]),
            Route("/v1/models", self._models),
            Route("/model_info", self._model_info),
            Route("/get_model_info", self._model_info),
            Route("/server_info", self._model_info),
        ]
        if self._plugin:
            routes += [
                Route("/agentserve", self._agentserve),
                Route("/agentserve/tokenizer", self._tokenizer_json),
            ]
        if self._releases:
            routes.append(Route("/agentserve/release", self._release, methods=["POST"]))
        return Starlette(routes=routes)

    async def _health(self, request: Request) -> Response:
        return Response(status_code=503 if self.starting else 200)

    async def _agentserve(self, request: Request) -> Response:
        return Response(self.report().model_dump_json(), media_type="application/json")

    async def _tokenizer_json(self, request: Request) -> Response:
        return PlainTextResponse(self._tokenizer)

    async def _release(self, request: Request) -> Response:
        body = await request.json()
        self.released.append(body)
        if await self._pause(request, body, self.release_delay_s) is not None:
            return Response(status_code=499)  # to nobody
        freed = sum(
            self._forget(session.id, max(session.keep, session.forked))
            for session in KvRelease.model_validate(body).sessions
        )
        released = KvReleased(freed_tokens=freed)
        return Response(released.model_dump_json(), media_type="application/json")

    async def _models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": self._model, "object": "model"}]})

    async def _model_info(self, request: Request) -> Response:
        return JSONResponse({"model_path": f"models/{self._model}", "is_generation": True})

    async def _generate(self, request: Request) -> Response:
        body = await _json_object(request)
        if body is None or not isinstance(body.get("text", ""), str):
            return _bad_request("no generation request")
        if (refused := await self._fault(request, body)) is not None:
            return refused
        computed_only = body.get("sampling_params", {}).get("max_new_tokens") == 0
        text = "" if computed_only else self._answer()
        ids = self._prompt_ids(body)
        usage = self._usage(ids, text, body)
        answer = {
            "text": text,
            "output_ids": list(text.encode()),
            "meta_info": {"id": "fake", "finish_reason": {"type": "stop"}, **usage},
        }
        if not body.get("stream"):
            return JSONResponse(answer)
        return self._stream([{**answer, "text": text[:1]}, answer])

    async def _chat(self, request: Request) -> Response:
        body = await _json_object(request)
        if body is None or not isinstance(body.get("messages"), list):
            return _bad_request("no chat request")
        if (refused := await self._fault(request, body)) is not None:
            return refused
        text = self._answer()
        usage = self._usage(list(json.dumps(body["messages"]).encode()), text, body)
        if body.get("stream"):
            return self._stream([{"choices": [{"delta": {"content": part}}]} for part in text])
        message = {"role": "assistant", "content": text}
        return JSONResponse(
            {
                "object": "chat.completion",
                "model": self._model,
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": usage,
            }
        )

    # behaviour

    async def _fault(self, request: Request, body: dict[str, Any]) -> Response | None:
        """Note the request and do what the script says of it; None to answer it."""
        self.requests.append(body)
        self.headers.append(dict(request.headers))
        fault = self.faults.popleft() if self.faults else None
        match fault:
            case "die":
                await self._die()
            case "die_midway":
                return self._stream([{"text": "c"}, None])
            case "hang":
                return await self._pause(request, body, None)
            case "drop":
                assert request.client is not None
                self._server.drop(tuple(request.client))
                return Response()
            case "refuse":
                return _bad_request("scripted refusal")
            case "error":
                return JSONResponse({"error": {"message": "scripted error"}}, status_code=500)
        return await self._pause(request, body, self.delay_s)

    async def _pause(
        self, request: Request, body: dict[str, Any], seconds: float | None
    ) -> Response | None:
        """Take time, for ever when None. A request whose client leaves is aborted, as SGLang's."""
        try:
            async with asyncio.timeout(seconds):
                while (await request.receive())["type"] != "http.disconnect":
                    pass
        except TimeoutError:
            return None
        self.aborted.append(body)
        return Response(status_code=499)  # to nobody

    async def _die(self) -> None:
        killing = asyncio.create_task(self.kill())  # it cancels the task that we run in
        await asyncio.wait({killing})

    def _stream(self, parts: Sequence[dict[str, Any] | None]) -> Response:
        """Server-sent chunks; None is the worker's death."""

        async def chunks() -> AsyncIterator[bytes]:
            for part in parts:
                if part is None:
                    await asyncio.sleep(0.05)  # the chunk before leaves first
                    await self._die()
                yield f"data: {json.dumps(part)}\n\n".encode()
                await asyncio.sleep(self.pace_s)
            yield b"data: [DONE]\n\n"

        return StreamingResponse(chunks(), media_type="text/event-stream")

    def _answer(self) -> str:
        return self.answers.popleft() if len(self.answers) > 1 else self.answers[0]

    def _usage(self, prompt: list[int], text: str, body: dict[str, Any]) -> dict[str, int]:
        cache = self._caches[body.get("cache_salt") or ""]
        cached = max((_common(prompt, known) for known in cache), default=0)
        entry = (*prompt, *text.encode())
        cache.add(entry)
        owned = (body.get("cache_salt") or "", entry)
        if (owner := body.get("session_id")) and owned not in self._owned[owner]:
            self._owned[owner].add(owned)
            self._owners[owned] += 1
        return {
            "prompt_tokens": len(prompt),
            "cached_tokens": min(cached, len(prompt) - 1),
            "completion_tokens": len(text.encode()),
        }

    def _forget(self, owner: str, keep: int) -> int:
        """Drop what only a session has, but for the first tokens: how many tokens that were. What
        others begin with as well is theirs still."""
        freed = 0
        for owned in self._owned.pop(owner, set()):
            self._owners[owned] -= 1
            if not self._owners[owned]:
                del self._owners[owned]
                salt, entry = owned
                self._caches[salt].discard(entry)
                self._caches[salt].add(entry[:keep])
                freed += len(entry[keep:])
        return freed

    def _prompt_ids(self, body: dict[str, Any]) -> list[int]:
        """The prompt as a worker sees it: each image pad becomes the picture's own tokens."""
        if "input_ids" not in body:
            return list(str(body.get("text", "")).encode())
        images = iter(body.get("image_data") or [])
        ids: list[int] = []
        for token in body["input_ids"]:
            ids += self._image_ids(next(images)) if token == self._image_pad_id else [token]
        return ids

    def _image_ids(self, image: str) -> list[int]:
        data = base64.b64decode(image.partition(",")[2] if image.startswith("data:") else image)
        with Image.open(io.BytesIO(data)) as picture:
            tokens = (picture.width // self._grid) * (picture.height // self._grid)
        return [int.from_bytes(hashlib.sha256(data).digest()[:6], "big")] * tokens


async def _json_object(request: Request) -> dict[str, Any] | None:
    try:
        body = await request.json()
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


def _bad_request(message: str) -> Response:
    return JSONResponse({"error": {"message": message}}, status_code=400)


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the common prefix."""
    return next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
