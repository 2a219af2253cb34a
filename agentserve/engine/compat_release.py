"""SGLang's private names about messages to the scheduler; ``compat.NAMES`` has their signatures.

Imports SGLang only where it is used: inside its processes, where all of it is loaded.
"""

from __future__ import annotations

from typing import Any

_METHOD = "agentserve-release"
"""None of SGLang's debugger, whose messages have a body of any form, and an answer."""


async def send_release(manager: Any, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Ask the schedulers: one answer of each. In the HTTP server's process."""
    from sglang.srt.managers.io_struct import DumperControlReqInput

    answers = await manager.dumper_control(DumperControlReqInput(method=_METHOD, body=body))
    return [response for answer in answers for response in answer.response]


def release_in(message: Any) -> dict[str, Any] | None:
    """What ``send_release`` has sent; None for a message of SGLang's own."""
    return message.body if message.method == _METHOD else None


def answer(response: dict[str, Any]) -> Any:
    """What the scheduler sends back."""
    from sglang.srt.managers.io_struct import DumperControlReqOutput

    return DumperControlReqOutput(success=True, response=[response])


def requests_of(scheduler: Any) -> list[Any]:
    """All requests of a scheduler that wait or run."""
    running = scheduler.collect_inflight_reqs()
    chunked = [scheduler.chunked_req] if scheduler.chunked_req is not None else []
    waiting = [*scheduler.waiting_queue, *scheduler.grammar_manager.grammar_queue, *chunked]
    return [*waiting, *(request for request in running if not request.finished())]
