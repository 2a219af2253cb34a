"""Every error agentserve raises, as one tree.

AgentServeError
├── BadRequest               the caller can mend it; nothing was changed
│   ├── InvalidRequest       422  a field is missing, unknown or out of range
│   ├── Unauthorized         401  no API key, or one that is unknown or has expired
│   ├── Forbidden            403  the API key may not do this
│   ├── UnknownRoute         404  no such path
│   ├── MethodNotAllowed     405  the path is known, not with this method
│   ├── UnknownSession       404  no such session
│   ├── UnknownBlob          404  no such blob
│   ├── UnknownWorker        404  no such worker
│   ├── UnknownModel         404  no worker serves a model of that name
│   ├── SessionClosed        409  the session is released or expired
│   ├── SessionPaused        409  the session is paused
│   ├── WorkerInUse          409  the worker still has sessions, or is not the API's to remove
│   ├── StaleEpoch           409  the turn's epoch is not the session's current one
│   ├── TurnInProgress       409  another turn of the session is running
│   ├── UnknownProgram       422  the program is not registered
│   ├── BadScreenshot        422  not an image, too many pixels, or of another size than the screen
│   ├── BadAction            422  text that is not an action of the session's grammar
│   ├── QuotaExceeded        403  the tenant has stored as much as it may
│   ├── BodyTooLarge         413  the request body is over the limit
│   └── WorkerRefused        422  the worker refused the request (its 4xx)
├── Unavailable              try again later or elsewhere; the session stays usable
│   ├── NoWorker             503  no worker is ready
│   ├── HostLost             503  the program host died during the turn
│   ├── WorkerLost           502  the worker died during the turn
│   ├── TurnTimeout          504  the turn took longer than its limit
│   ├── OverCapacity         429  as much of this tenant is queued as may be
│   ├── Overloaded           503  as much is queued as the router takes
│   └── StorageFailed        507  the router cannot write to its store
├── ProgramFailed            500  the program raised
├── EngineMismatch           -    this SGLang does not fit the plugin (the worker does not start)
├── BrowserFailed            -    the page or the browser failed
└── RecordingError           -    a recording is damaged, or a replay left it

``code`` is what programs switch on, ``status`` the HTTP status, ``hint`` what to do next and
``details`` the values a client needs to recover (the current epoch, the known programs).
"""

from __future__ import annotations

from typing import Any, ClassVar


class AgentServeError(Exception):
    """Base of all errors; see the module's tree."""

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        details: dict[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details or {}
        self.retry_after = retry_after

    def body(self, *, session_id: str | None = None, request_id: str | None = None) -> dict:
        """The one JSON shape in which every error reaches a client."""
        return {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "details": self.details,
            "session_id": session_id,
            "request_id": request_id,
        }


class BadRequest(AgentServeError):
    code, status = "bad_request", 400


class InvalidRequest(BadRequest):
    code, status = "invalid_request", 422


class Unauthorized(BadRequest):
    code, status = "unauthorized", 401


class Forbidden(BadRequest):
    code, status = "forbidden", 403


class UnknownRoute(BadRequest):
    code, status = "unknown_route", 404


class MethodNotAllowed(BadRequest):
    code, status = "method_not_allowed", 405


class UnknownSession(BadRequest):
    code, status = "unknown_session", 404


class UnknownBlob(BadRequest):
    code, status = "unknown_blob", 404


class UnknownWorker(BadRequest):
    code, status = "unknown_worker", 404


class UnknownModel(BadRequest):
    code, status = "unknown_model", 404


class SessionClosed(BadRequest):
    code, status = "session_closed", 409


class SessionPaused(BadRequest):
    code, status = "session_paused", 409


class WorkerInUse(BadRequest):
    code, status = "worker_in_use", 409


class StaleEpoch(BadRequest):
    code, status = "stale_epoch", 409


class TurnInProgress(BadRequest):
    code, status = "turn_in_progress", 409


class UnknownProgram(BadRequest):
    code, status = "unknown_program", 422


class BadScreenshot(BadRequest):
    code, status = "bad_screenshot", 422


class BadAction(BadRequest):
    code, status = "bad_action", 422


class QuotaExceeded(BadRequest):
    """403, not 507 or 429: nothing is wrong with the router, and asking again does not help, which
    is what clients and proxies do by themselves after a 5xx or a 429."""

    code, status = "quota_exceeded", 403


class BodyTooLarge(BadRequest):
    code, status = "body_too_large", 413


class WorkerRefused(BadRequest):
    code, status = "worker_refused", 422


class Unavailable(AgentServeError):
    code, status = "unavailable", 503


class NoWorker(Unavailable):
    code, status = "no_worker", 503


class HostLost(Unavailable):
    code, status = "host_lost", 503


class WorkerLost(Unavailable):
    code, status = "worker_lost", 502


class TurnTimeout(Unavailable):
    code, status = "turn_timeout", 504


class OverCapacity(Unavailable):
    code, status = "over_capacity", 429


class Overloaded(Unavailable):
    code, status = "overloaded", 503


class StorageFailed(Unavailable):
    code, status = "storage_failed", 507


class ProgramFailed(AgentServeError):
    code, status = "program_failed", 500


class EngineMismatch(AgentServeError):
    code = "engine_mismatch"


class BrowserFailed(AgentServeError):
    code = "browser_failed"


class RecordingError(AgentServeError):
    code = "recording_error"


def _tree(cls: type[AgentServeError]) -> list[type[AgentServeError]]:
    return [cls, *(leaf for child in cls.__subclasses__() for leaf in _tree(child))]


def by_code() -> dict[str, type[AgentServeError]]:
    """All error classes by their code: how a client turns a JSON body back into the exception."""
    return {cls.code: cls for cls in _tree(AgentServeError)}


def from_body(body: dict[str, Any], *, retry_after: float | None = None) -> AgentServeError:
    """The exception a router's JSON error body stands for; unknown codes become AgentServeError."""
    cls = by_code().get(str(body.get("code")), AgentServeError)
    return cls(
        str(body.get("message", "the router gave no message")),
        hint=str(body.get("hint", "")),
        details=body.get("details") or {},
        retry_after=retry_after,
    )
