"""The HTTP that a turn speaks to its worker, and the one place where its failures get a name."""

from __future__ import annotations

from typing import Any

import httpx

from agentserve.core import tracing
from agentserve.core.deadlines import Deadline
from agentserve.core.errors import AgentServeError, WorkerLost, WorkerRefused
from agentserve.lang.http import WorkerHttp

CONNECT_TIMEOUT_S = 5.0
_RESTARTED = "the worker died or was restarted; the turn can run again on another one"


class WorkerClient:
    """One turn's view of its worker.

    Every method raises WorkerLost (no answer, 5xx, aborted), WorkerRefused (4xx, with the
    worker's message) or TurnTimeout.
    """

    def __init__(
        self,
        http: WorkerHttp,
        url: str,
        deadline: Deadline,
        cache_salt: str = "",
        session_id: str = "",
    ) -> None:
        """``cache_salt`` parts what is generated here from others' prompts in the worker's caches;
        empty for nothing. ``session_id``: whose prompts these are, so that the worker can forget
        them when that session is over; empty for nobody's."""
        self.url = url.rstrip("/")
        named = {"cache_salt": cache_salt, "session_id": session_id}
        self._fields = {name: value for name, value in named.items() if value}
        self._http = http
        self._deadline = deadline

    def tokenizer_json(self) -> str:
        return self._send("GET", "/agentserve/tokenizer").text

    def generate(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        """``POST /generate``: one answer for each prompt in ``input_ids``."""
        response = self._send("POST", "/generate", json=body | self._fields)
        try:
            answer = response.json()
            answers = answer if isinstance(answer, list) else [answer]
            for one in answers:
                reason = one["meta_info"]["finish_reason"] or {}
                if reason.get("type") == "abort":
                    raise WorkerLost(
                        f"the worker aborted the request: {reason.get('message') or 'no reason'}",
                        hint=_RESTARTED,
                    )
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise WorkerLost(
                f"the worker at {self.url} answered something that is no generation: {error!r}",
                hint="is it an SGLang server of the supported version?",
            ) from error
        return answers

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        http = {"http.request.method": method, "url.path": path}
        with tracing.span(f"{method} {path}", "client", http=http):
            return self._answer(method, path, options)

    def _answer(self, method: str, path: str, options: dict[str, Any]) -> httpx.Response:
        left = self._deadline.remaining()
        timeout = httpx.Timeout(left, connect=min(left, CONNECT_TIMEOUT_S))
        options |= {"timeout": timeout, "headers": tracing.headers()}
        try:
            response = self._http.request(method, self.url + path, self._deadline, **options)
        except httpx.ConnectTimeout as error:
            raise self._lost(error) from error
        except httpx.TimeoutException as error:
            raise self._deadline.exceeded() from error
        except httpx.TransportError as error:
            raise self._lost(error) from error
        if response.is_success:
            return response
        raise self._failure(response)

    def _lost(self, error: httpx.TransportError) -> WorkerLost:
        return WorkerLost(
            f"no answer from the worker at {self.url}: {type(error).__name__}: {error}",
            hint=_RESTARTED,
        )

    def _failure(self, response: httpx.Response) -> AgentServeError:
        message = (
            f"the worker answered {response.status_code} to {response.request.url.path}: "
            f"{_message_of(response)}"
        )
        if response.status_code >= 500:
            return WorkerLost(message, hint=_RESTARTED)
        return WorkerRefused(message, hint="see the worker's message; the session is unchanged")


def _message_of(response: httpx.Response) -> str:
    """SGLang's own words: ``{"error": {"message": …}}``, ``{"detail": …}`` or plain text."""
    try:
        body = response.json()
    except ValueError:
        body = None
    if isinstance(body, dict):
        error = body.get("error")
        if isinstance(error, dict) and "message" in error:
            return str(error["message"])[:2000]
        if "detail" in body:
            return str(body["detail"])[:2000]
    return response.text[:2000]
