"""A program host without SGLang: it speaks the host's protocol as a real process on a Unix socket.

A turn sends one ``/generate`` to its worker and takes the answer as the action. An instruction that
begins with ``!`` scripts the turn instead:

- ``!die``         the process kills itself
- ``!die_once``    so it does the first time it sees this session and turn
- ``!hang``        no answer until the process ends
- ``!sleep 0.5``   waits before the generation
- ``!fail``        the program raises
- ``!idle``        the program does not act: no action text, no generation
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agentserve.core.blobs import read_picture
from agentserve.core.config import LogConfig
from agentserve.core.errors import (
    AgentServeError,
    InvalidRequest,
    ProgramFailed,
    TurnTimeout,
    WorkerLost,
    WorkerRefused,
)
from agentserve.core.families import family_named
from agentserve.core.hosting import HostAnswer, HostTurn, HostWarming, ProgramInfo, ProgramList
from agentserve.core.leaving import ClientLeft, while_client_waits
from agentserve.core.logs import set_up_logs
from agentserve.core.plans import Piece, Plan, TextPiece, VisualItem, next_position
from agentserve.core.sessions import CallUsage

IMAGE_BEGIN, IMAGE_PAD, IMAGE_END = 151_652, 151_655, 151_653
PROGRAM = "scripted"


def scripted_host(spec: Any) -> list[str]:
    """The command line of a scripted host: pass it as ``create_app(host_command=…)``. ``spec`` is
    a router.hosts.HostSpec (named by its fields: a sibling layer is not imported)."""
    return [
        *(sys.executable, "-m", "agentserve.testing.host"),
        *("--socket", str(spec.socket), "--blobs", str(spec.blobs)),
        *("--threads", str(spec.threads), *spec.log.arguments()),
        *(["--trace"] if spec.trace else []),
        *("--programs", *(str(path) for path in spec.programs)),
    ]


class ScriptedHost:
    """The application of the host process."""

    def __init__(self, blobs: Path) -> None:
        self._blobs = blobs
        self.app = Starlette(
            routes=[
                Route("/programs", self._programs),
                Route("/turns", self._turn, methods=["POST"]),
                Route("/warmings", self._warm, methods=["POST"]),
            ],
            exception_handlers={AgentServeError: _error},
        )

    async def _programs(self, request: Request) -> Response:
        known = ProgramList(
            programs=[ProgramInfo(name=PROGRAM, doc="One scripted turn.", sha256="0" * 64)],
            broken={"broken.py": "it has no turn"},
        )
        return _json(known.model_dump_json())

    async def _turn(self, request: Request) -> Response:
        try:
            turn = HostTurn.model_validate_json(await request.body())
        except ValidationError as error:
            raise InvalidRequest(str(error)) from error
        try:
            return await while_client_waits(request.receive, self._run(turn))
        except ClientLeft:
            return Response(status_code=499)  # to nobody

    async def _run(self, turn: HostTurn) -> Response:
        command, _, value = turn.instruction.partition(" ")
        match command:
            case "!die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "!die_once":
                self._die_once(turn)
            case "!hang":
                await asyncio.Event().wait()
            case "!sleep":
                await asyncio.sleep(float(value))
            case "!fail":
                raise ProgramFailed("the program raised ValueError: scripted")
            case "!idle":
                return _json(_answer(turn, "", []).model_dump_json())
        return _json((await self._generate(turn)).model_dump_json())

    async def _warm(self, request: Request) -> Response:
        warming = HostWarming.model_validate_json(await request.body())
        options = {"max_new_tokens": 0}
        _, usage = await self._call(warming, warming.pieces, options)
        return _json(usage.model_dump_json())

    def _die_once(self, turn: HostTurn) -> None:
        mark = self._blobs / f"died-{turn.session_id}-{turn.plan.screen[0].turn}"
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    async def _generate(self, turn: HostTurn) -> HostAnswer:
        pieces = [*turn.plan.prior, *_prompt(turn)]
        options = {"max_new_tokens": turn.max_turn_tokens, "temperature": 0}
        text, usage = await self._call(turn, pieces, options)
        return _answer(turn, text, [usage])

    async def _call(
        self, ask: HostTurn | HostWarming, pieces: list[Piece], options: dict[str, Any]
    ) -> tuple[str, CallUsage]:
        handed = ask.handed if isinstance(ask, HostTurn) else None
        images = [
            base64.b64encode(read_picture(self._blobs, ask.tenant, piece.blob, handed)).decode()
            for piece in pieces
            if isinstance(piece, VisualItem)
        ]
        body = {
            "input_ids": [token for piece in pieces for token in _ids(piece)],
            "image_data": images,
            "sampling_params": options,
            "cache_salt": ask.cache_salt,
            "session_id": ask.session_id,
        }
        try:
            async with httpx.AsyncClient(timeout=ask.timeout_s, trust_env=False) as http:
                answer = await http.post(f"{ask.worker_url}/generate", json=body)
        except httpx.TimeoutException as error:
            raise TurnTimeout(f"the turn took longer than {ask.timeout_s:g} s") from error
        except httpx.TransportError as error:
            raise WorkerLost(f"the worker was lost: {type(error).__name__}") from error
        if answer.status_code >= 500:
            raise WorkerLost(f"the worker answered {answer.status_code}")
        if answer.status_code >= 400:
            raise WorkerRefused(f"the worker answered {answer.status_code}: {answer.text[:200]}")
        result = answer.json()
        meta = result["meta_info"]
        usage = CallUsage(**{name: meta[name] for name in CallUsage.model_fields if name in meta})
        return result["text"], usage


def _prompt(turn: HostTurn) -> list[Piece]:
    """What the program adds before it generates: its begin, the screen, the instruction."""
    begin = [_text(turn.task)] if turn.first else []
    feedback = f"[{turn.outcome.status} {turn.outcome.message}]" if turn.outcome else ""
    return _placed(turn, [*begin, *_marked(turn.plan), _text(f"{feedback}{turn.instruction}\n")])


def _marked(plan: Plan) -> list[VisualItem]:
    """The screen's items in their markers: the parts of one screen share a pair."""
    items = []
    for index, item in enumerate(plan.screen):
        first, last = index == 0, index == len(plan.screen) - 1
        begin = [IMAGE_BEGIN] if first or not plan.mosaic else []
        end = [IMAGE_END] if last or not plan.mosaic else []
        items.append(item.model_copy(update={"begin": begin, "end": end}))
    return items


def _placed(turn: HostTurn, pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces at their positions, which they have in a mosaic's prompt only."""
    if not turn.plan.mosaic:
        return list(pieces)
    grid = family_named(turn.family).grid
    placed: list[Piece] = []
    at = next_position(turn.plan.prior, grid)
    inside = at
    for piece in pieces:
        changes: dict[str, int] = {"position": at}
        if isinstance(piece, VisualItem):
            inside = at + 1 if piece.begin else inside
            base = inside if piece.base is None else piece.base
            changes = {"position": at if piece.begin else inside, "base": base}
        placed.append(piece.model_copy(update=changes))
        if not isinstance(piece, VisualItem) or piece.end:
            at = next_position(placed[-1:], grid)
    return placed


def _answer(turn: HostTurn, text: str, calls: list[CallUsage]) -> HostAnswer:
    return HostAnswer(
        pieces=_placed(turn, [*_prompt(turn), _text(text)]),
        text=text,
        variables={"action": text} if calls else {},
        action_text=text if calls else None,
        calls=calls,
    )


def _text(text: str) -> TextPiece:
    return TextPiece(ids=list(text.encode()), text=text)


def _ids(piece: Piece) -> list[int]:
    if isinstance(piece, TextPiece):
        return piece.ids
    return [*piece.begin, IMAGE_PAD, *piece.end]


def _json(text: str) -> Response:
    return Response(text, media_type="application/json")


async def _error(request: Request, error: Exception) -> Response:
    assert isinstance(error, AgentServeError)
    return JSONResponse(error.body(), status_code=error.status)


def _exit_with_parent() -> None:
    """End when standard input does: our parent holds its other end."""
    if not os.read(sys.stdin.fileno(), 1):
        os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(description="a scripted program host")
    parser.add_argument("--socket", required=True)
    parser.add_argument("--blobs", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--programs", nargs="*", type=Path, default=[])
    parser.add_argument("--trace", action="store_true", help="it has no spans of its own")
    parser.add_argument("--log-format", default=LogConfig.format)
    parser.add_argument("--log-level", default=LogConfig.level)
    arguments = parser.parse_args()
    set_up_logs(LogConfig(arguments.log_format, arguments.log_level))
    asyncio.run(_serve(arguments.socket, arguments.blobs))


async def _serve(socket: str, blobs: Path) -> None:
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), _exit_with_parent)
    server = uvicorn.Server(
        uvicorn.Config(
            ScriptedHost(blobs).app,
            uds=socket,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=1,
        )
    )
    await server.serve()


if __name__ == "__main__":
    main()
