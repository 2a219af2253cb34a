"""``/v1/sessions/{id}/turns``: send a screenshot, get the action."""

from __future__ import annotations

import base64
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import ValidationError
from starlette.datastructures import UploadFile

from agentserve.core.errors import BadScreenshot, InvalidRequest
from agentserve.core.leaving import while_client_waits
from agentserve.core.logs import tell
from agentserve.core.pruning import Compression
from agentserve.core.screenshots import ScreenshotRef
from agentserve.core.sessions import Outcome, TurnPage, TurnRequest, TurnResult
from agentserve.router.api.deps import Cursor, OwnSession, Parts, TenantId, TimeoutS, documented
from agentserve.router.api.examples import TURN_REQUEST, TURN_RESULT, responds
from agentserve.router.api.turn_stream import DESCRIPTION, TurnStream, seen_of
from agentserve.router.errors import invalid
from agentserve.router.services import Services
from agentserve.router.turns.asking import TurnAsk
from agentserve.vision.patches import Region, ScreenPatch

router = APIRouter(prefix="/v1/sessions/{session_id}/turns", tags=["turns"])
_FIELDS = ("screenshot", "instruction", "epoch", "outcome", "compression", "resend_thin")
_JSON_FIELDS = {"outcome": Outcome, "compression": Compression}
OnDisconnect = Annotated[
    Literal["continue", "cancel"],
    Query(
        description="What becomes of a turn that runs when this client leaves. It is cancelled, "
        "and aborted on its worker, when all who asked for it said so and the last has left."
    ),
]
_FORM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["screenshot"],
    "additionalProperties": False,
    "properties": {
        "screenshot": {
            "type": "string",
            "format": "binary",
            "description": "PNG, JPEG or WebP of the viewport.",
        },
        "instruction": {"type": "string", "maxLength": 8000},
        "epoch": {"type": "integer", "minimum": 0},
        "outcome": {
            "type": "string",
            "description": 'JSON: {"status": "ok" | "invalid" | "failed", "message": "…"}',
        },
        "compression": {
            "type": "string",
            "description": 'JSON: {"pruning": {"method": …}, "eviction": {"method": …}}',
        },
        "resend_thin": {"type": "boolean"},
    },
}


@router.post(
    "",
    response_model=TurnResult,
    responses=documented(
        "unknown_session", "unknown_blob", "session_closed", "session_paused", "stale_epoch",
        "turn_in_progress",
        "bad_screenshot", "worker_refused", "no_worker", "host_lost", "worker_lost",
        "turn_timeout", "over_capacity", "overloaded", "quota_exceeded", "program_failed",
        "storage_failed",
    )
    | responds(200, "The action, in CSS px; or a stream.", TURN_RESULT, DESCRIPTION),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "multipart/form-data": {"schema": _FORM_SCHEMA},
                "application/json": {
                    "schema": {"$ref": "#/components/schemas/TurnRequest"},
                    "examples": TURN_REQUEST,
                },
            },
        }
    },
)  # fmt: skip
async def run_turn(
    session_id: OwnSession,
    request: Request,
    parts: Parts,
    tenant: TenantId,
    timeout_s: TimeoutS = None,
    on_disconnect: OnDisconnect = "continue",
    last_event_id: Annotated[
        str | None, Header(description="Of a stream that broke: what need not be sent again.")
    ] = None,
) -> Response:
    """Run one turn. The screenshot comes as a multipart file, or in a JSON body: in base64, as the
    hash of a blob, or as an earlier screenshot and the regions that have changed since. When the
    router does not know that one any more (404), or another picture comes out (422), send it whole.

    Safe to repeat: the same epoch, screenshot and instruction are answered from the store, or
    join the turn while it waits or runs. A turn that runs goes on when its clients leave, unless
    `on_disconnect` says otherwise; one that still waits for a place does not.

    With `Accept: text/event-stream` the answer is a stream: `queued`, `started`, `retried` as they
    happen, then `completed` with the result, or `error`. When it breaks, the same request again
    goes on with it.
    """
    turn, screenshot = await _read(request, parts, tenant)
    streams = "text/event-stream" in request.headers.get("accept", "")
    seen_epoch, seen = seen_of(last_event_id, session_id) if streams else (None, 0)
    epoch = seen_epoch if turn.epoch is None else turn.epoch
    if streams and epoch is None:
        epoch = (await parts.sessions.get(session_id)).session.epoch
    ask = TurnAsk(
        screenshot=screenshot,
        instruction=turn.instruction,
        epoch=epoch,
        outcome=turn.outcome,
        compression=turn.compression,
        resend_thin=turn.resend_thin,
        request_id=request.state.request_id,
        timeout_s=timeout_s,
        goes_on=on_disconnect == "continue",
    )
    if not streams or epoch is None:
        result = await while_client_waits(request.receive, parts.turns.ask(session_id, ask))
        tell(turn=result.turn, worker_id=result.worker.id)
        # FastAPI would check it once more, and make it of dicts
        return Response(result.model_dump_json(), media_type="application/json")
    told = parts.turns.follow(session_id, ask)
    seen = seen if epoch == seen_epoch else 0  # of an earlier turn: nothing of this one
    return await TurnStream(request, session_id, epoch, told, seen).response()


@router.get("", responses=documented("unknown_session"))
async def list_turns(
    session_id: OwnSession,
    parts: Parts,
    after: Cursor = 0,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> TurnPage:
    """The stored answers from epoch `after` on."""
    turns = await parts.store.turns(session_id, after, limit)
    return TurnPage(turns=turns, next_cursor=turns[-1].epoch + 1 if turns else after)


async def _read(
    request: Request, parts: Services, tenant: str
) -> tuple[TurnRequest, bytes | ScreenPatch]:
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type == "multipart/form-data":
        return await _read_form(request)
    if content_type == "application/json":
        return await _read_json(request, parts, tenant)
    raise InvalidRequest(
        f"a turn cannot be sent as {content_type[:100] or 'nothing'!r}",
        hint="send multipart/form-data with a file `screenshot`, or application/json",
    )


async def _read_form(request: Request) -> tuple[TurnRequest, bytes]:
    async with request.form(max_files=1, max_fields=len(_FIELDS)) as form:
        names = [name for name, _ in form.multi_items()]
        if unknown := sorted(set(names) - set(_FIELDS)):
            raise InvalidRequest(
                f"unknown fields: {', '.join(unknown)[:200]}", hint=f"known: {', '.join(_FIELDS)}"
            )
        if len(names) != len(set(names)):
            raise InvalidRequest("a field is given twice", hint="give each field once")
        upload = form.get("screenshot")
        if not isinstance(upload, UploadFile):
            raise InvalidRequest(
                "the file `screenshot` is missing",
                hint="with curl: -F screenshot=@screen.png",
            )
        fields = {name: form[name] for name in names if name != "screenshot"}
        screenshot = await upload.read()
    try:
        parsed = {
            name: model.model_validate_json(str(fields[name]))
            for name, model in _JSON_FIELDS.items()
            if name in fields
        }
        turn = TurnRequest.model_validate(
            {
                **fields,
                **parsed,
                "screenshot": ScreenshotRef(base64=""),  # its bytes are here already
            }
        )
    except ValidationError as error:
        raise invalid(error, "the turn is not valid") from error
    return turn, screenshot


async def _read_json(request: Request, parts: Services, tenant: str) -> tuple[TurnRequest, bytes]:
    try:
        turn = TurnRequest.model_validate_json(await request.body())
    except ValidationError as error:
        raise invalid(error, "the turn is not valid") from error
    ref = turn.screenshot
    if ref.base is not None:
        return turn, await _read_patch(ref, parts, tenant)
    if ref.blob is not None:
        return turn, await parts.blobs.read(tenant, ref.blob)
    return turn, _from_base64(ref.base64 or "", "the screenshot")


async def _read_patch(ref: ScreenshotRef, parts: Services, tenant: str) -> ScreenPatch:
    assert ref.base is not None and ref.sha256 is not None
    named = [region.blob for region in ref.regions if region.blob is not None]
    sizes = await parts.blobs.use(tenant, named)
    limit = parts.config.max_screenshot_bytes
    if sum(sizes.get(name, 0) for name in named) > limit:  # before any of it is in memory
        raise BadScreenshot(
            f"the patch's regions have more than {limit} bytes",
            hint="send the whole screenshot instead",
        )
    regions = []
    for number, region in enumerate(ref.regions):
        if region.blob is not None:
            png = await parts.blobs.read(tenant, region.blob)
        else:
            png = _from_base64(region.base64 or "", f"the patch's region {number}")
        regions.append(Region(region.box, png))
    return ScreenPatch(await parts.blobs.read(tenant, ref.base), regions, ref.sha256)


def _from_base64(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:  # binascii.Error, or text that is not ASCII
        raise BadScreenshot(
            f"{what} is not base64: {error}",
            hint="send the file's bytes in standard base64, without a data: prefix",
        ) from error
