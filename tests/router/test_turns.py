"""Turns that go well, and the rules of epochs."""

from __future__ import annotations

import asyncio
import base64
import threading
import time

import pytest

from agentserve.core.actions import Click
from agentserve.core.blobs import sha256_of
from agentserve.core.errors import (
    BadScreenshot,
    InvalidRequest,
    ProgramFailed,
    SessionClosed,
    StaleEpoch,
    TurnInProgress,
    UnknownBlob,
    UnknownSession,
    WorkerRefused,
)
from agentserve.core.pruning import Compression, Eviction
from agentserve.core.screens import Size
from agentserve.core.screenshots import ScreenshotRef
from agentserve.core.sessions import Outcome, TurnRequest
from agentserve.router.turns import running as runs
from agentserve.router.turns.running import MAX_DECODES
from agentserve.vision.patches import open_sent

from .rig import MODEL_SIZE, SCREEN_TOKENS, Rig, eventually, new_session, picture

RED, BLUE = picture(color=(255, 0, 0)), picture(color=(0, 0, 255))


async def running(rig: Rig, session_id: str) -> None:
    await eventually(lambda: rig.client.session(session_id), lambda s: s.status.value == "running")


async def test_a_turn_answers_the_action_in_css_px_and_counts_tokens(rig: Rig):
    session = await rig.client.create_session(new_session())
    result = await rig.client.turn(session.id, RED, epoch=0)
    assert (result.turn, result.epoch, result.attempts, result.replayed) == (0, 0, 1, False)
    assert result.model_action == Click(x=10, y=10)
    assert result.action == Click(x=10, y=9)  # (10.5 * 160 / 168, 10.5 * 210 / 224)
    assert (result.text, result.variables) == ("click 10 10", {"action": "click 10 10"})
    assert result.screenshot == sha256_of(RED)
    assert result.worker.id == session.pin.worker_id
    task = len("press ok")
    assert result.usage.prompt_tokens == task + 1 + SCREEN_TOKENS + 1 + task + 1
    assert (result.usage.visual_tokens, result.usage.stored_prefix_tokens) == (SCREEN_TOKENS, 0)
    assert result.usage.completion_tokens == len("click 10 10")
    assert result.timings.total_ms >= result.timings.program_ms > 0


async def test_the_second_turn_finds_the_whole_stored_prefix_cached(rig: Rig):
    session = await rig.client.create_session(new_session())
    first = await rig.client.turn(session.id, RED)
    second = await rig.client.turn(session.id, BLUE, instruction="now this")
    held = first.usage.prompt_tokens + first.usage.completion_tokens
    assert second.usage.stored_prefix_tokens == held
    assert second.usage.cached_tokens >= held
    assert second.usage.prefilled_tokens == second.usage.prompt_tokens - second.usage.cached_tokens
    assert second.move is None
    after = await rig.client.session(session.id)
    assert (after.epoch, after.turns, after.status.value) == (2, 2, "idle")
    prompt = second.usage.prompt_tokens + second.usage.completion_tokens
    assert after.pin.expected_cached_tokens == prompt
    assert after.usage.prompt_tokens == first.usage.prompt_tokens + second.usage.prompt_tokens
    sent = rig.worker_of(session).requests[-1]
    assert len(sent["image_data"]) == 2


async def test_policy_current_sends_one_picture_and_declares_the_move(rig: Rig):
    session = await rig.client.create_session(new_session(policy="current"))
    moves = []
    for color in (RED, BLUE, RED):
        moves.append((await rig.client.turn(session.id, color)).move)
        assert len(rig.worker_of(session).requests[-1]["image_data"]) == 1
    assert moves == [None, "policy", "policy"]


async def test_a_full_context_drops_old_screens_for_good(small_context: Rig):
    size = Size(width=560, height=560)  # 400 tokens a screen, room for 2800
    session = await small_context.client.create_session(new_session(viewport=size))
    moves = []
    for number in range(9):
        shot = picture(size, (number, 0, 0))
        moves.append((await small_context.client.turn(session.id, shot)).move)
    assert moves[:6] == [None] * 6
    assert moves[6:] == ["context"] * 3
    images = [len(r["image_data"]) for r in small_context.workers[0].requests[-9:]]
    assert images == [1, 2, 3, 4, 5, 6, 6, 6, 6]


async def test_the_model_image_is_the_upload_itself_at_the_model_size(rig: Rig):
    session = await rig.client.create_session(new_session())
    exact = picture(MODEL_SIZE, kind="WEBP")
    await rig.client.turn(session.id, exact)
    await rig.client.turn(session.id, RED)
    images = rig.worker_of(session).requests[-1]["image_data"]
    assert base64.b64decode(images[0]) == exact
    resized = base64.b64decode(images[1])
    assert resized.startswith(b"\x89PNG") and resized != RED
    for blob in (exact, RED, resized):
        assert await rig.client.has_blob(sha256_of(blob))


async def test_json_turns_take_base64_or_a_blob(rig: Rig):
    session = await rig.client.create_session(new_session())
    inline = ScreenshotRef(base64=base64.b64encode(RED).decode())
    first = await rig.client.turn_json(session.id, TurnRequest(screenshot=inline, epoch=0))
    assert first.screenshot == sha256_of(RED)
    sha = await rig.client.put_blob(BLUE)
    second = await rig.client.turn_json(
        session.id, TurnRequest(screenshot=ScreenshotRef(blob=sha), outcome=Outcome(status="ok"))
    )
    assert (second.screenshot, second.epoch) == (sha, 1)
    missing = TurnRequest(screenshot=ScreenshotRef(blob="0" * 64))
    with pytest.raises(UnknownBlob, match="0000"):
        await rig.client.turn_json(session.id, missing)


async def test_an_answer_that_is_no_action_is_told_as_invalid(rig: Rig):
    session = await rig.client.create_session(new_session())
    worker = rig.worker_of(session)
    worker.answers.extendleft(["click 900 10", "click 5"][::-1])
    outside = await rig.client.turn(session.id, RED)
    assert outside.action is None and outside.model_action is None
    assert outside.invalid.text == "click 900 10"
    assert "outside the screen of 168x224" in outside.invalid.reason
    cut = await rig.client.turn(
        session.id, BLUE, outcome=Outcome(status="invalid", message=outside.invalid.reason)
    )
    assert "click takes x y button?" in cut.invalid.reason
    assert (await rig.client.session(session.id)).epoch == 2


async def test_a_program_may_not_act(rig: Rig):
    session = await rig.client.create_session(new_session())
    result = await rig.client.turn(session.id, RED, instruction="!idle")
    assert (result.action, result.invalid, result.usage.calls) == (None, None, [])


# epochs


async def test_the_same_turn_again_is_answered_from_the_store(rig: Rig):
    session = await rig.client.create_session(new_session())
    results = [
        await rig.client.turn(session.id, shot, epoch=epoch, instruction=f"step {epoch}")
        for epoch, shot in enumerate([RED, BLUE, RED])
    ]
    asked = len(rig.worker_of(session).requests)
    for epoch, shot in [(2, RED), (0, RED), (1, BLUE)]:
        again = await rig.client.turn(session.id, shot, epoch=epoch, instruction=f"step {epoch}")
        assert again == results[epoch].model_copy(update={"replayed": True})
    assert len(rig.worker_of(session).requests) == asked
    assert (await rig.client.session(session.id)).epoch == 3


@pytest.mark.parametrize(
    ("epoch", "shot", "instruction"),
    [(0, BLUE, None), (0, RED, "other"), (2, RED, None), (7, RED, None)],
)
async def test_any_other_epoch_is_refused_with_the_current_one(rig: Rig, epoch, shot, instruction):
    session = await rig.client.create_session(new_session())
    await rig.client.turn(session.id, RED, epoch=0)
    before = await rig.client.session(session.id)
    with pytest.raises(StaleEpoch) as caught:
        await rig.client.turn(session.id, shot, epoch=epoch, instruction=instruction)
    assert caught.value.details == {"epoch": 1}
    assert await rig.client.session(session.id) == before


async def test_a_duplicate_joins_the_running_turn_and_another_one_is_refused(rig: Rig):
    session = await rig.client.create_session(new_session())
    ask = {"instruction": "!sleep 2", "epoch": 0}
    first = asyncio.create_task(rig.client.turn(session.id, RED, **ask))
    await running(rig, session.id)
    joined = asyncio.create_task(rig.client.turn(session.id, RED, **ask))
    unnumbered = asyncio.create_task(
        rig.client.turn(session.id, RED, instruction="!sleep 2", epoch=None)
    )
    with pytest.raises(TurnInProgress):
        await rig.client.turn(session.id, BLUE, epoch=0)
    result = await first
    assert not result.replayed
    assert await joined == await unnumbered == result.model_copy(update={"replayed": True})
    assert (await rig.client.session(session.id)).turns == 1


async def test_many_equal_requests_at_once_run_one_turn(rig: Rig):
    session = await rig.client.create_session(new_session())
    before = len(rig.worker_of(session).requests)
    results = await asyncio.gather(*(rig.client.turn(session.id, RED, epoch=0) for _ in range(8)))
    assert sorted(result.replayed for result in results) == [False] + [True] * 7
    assert len(rig.worker_of(session).requests) == before + 1


async def test_a_client_that_leaves_loses_nothing(rig: Rig):
    session = await rig.client.create_session(new_session())
    leaving = asyncio.create_task(
        rig.client.turn(session.id, RED, epoch=0, instruction="!sleep 0.4")
    )
    await running(rig, session.id)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    await eventually(lambda: rig.client.session(session.id), lambda s: s.epoch == 1)
    again = await rig.client.turn(session.id, RED, epoch=0, instruction="!sleep 0.4")
    assert again.replayed and again.action is not None


async def test_release_ends_the_running_turn(rig: Rig):
    session = await rig.client.create_session(new_session())
    turn = asyncio.create_task(rig.client.turn(session.id, RED, instruction="!hang"))
    await running(rig, session.id)
    await rig.client.release(session.id)
    with pytest.raises(SessionClosed, match="released during the turn"):
        await turn
    assert (await rig.client.session(session.id)).status.value == "released"


async def test_delete_ends_the_running_turn(rig: Rig):
    session = await rig.client.create_session(new_session())
    turn = asyncio.create_task(rig.client.turn(session.id, RED, instruction="!hang"))
    await running(rig, session.id)
    await rig.client.delete(session.id)
    with pytest.raises((SessionClosed, UnknownSession)):
        await turn


# failures that are nobody's death


@pytest.mark.parametrize(
    ("instruction", "fault", "error"),
    [("!fail", None, ProgramFailed), (None, "refuse", WorkerRefused)],
)
async def test_a_failed_turn_leaves_the_session_usable(rig: Rig, instruction, fault, error):
    session = await rig.client.create_session(new_session())
    if fault:
        rig.worker_of(session).faults.append(fault)
    with pytest.raises(error):
        await rig.client.turn(session.id, RED, instruction=instruction)
    after = await rig.client.session(session.id)
    assert (after.status.value, after.epoch, after.turns) == ("idle", 0, 0)
    failed = (await rig.events(session.id))[-1]
    assert (failed.type.value, failed.data["code"]) == ("turn.failed", error.code)
    assert (await rig.client.turn(session.id, RED, epoch=0)).turn == 0


@pytest.mark.parametrize(
    ("shot", "words"),
    [
        (b"not a picture", "not a PNG, JPEG or WebP"),
        (RED[:60], "damaged|not a PNG"),
        (picture(Size(width=161, height=210)), "161x210, this session's screen is"),
        (picture(kind="GIF"), "not a PNG"),
        (picture(Size(width=5000, height=4000)), "5000x4000 pixels; the limit"),
    ],
)
async def test_bad_screenshots_are_refused_without_a_trace(rig: Rig, shot, words):
    session = await rig.client.create_session(new_session())
    before = await rig.client.session(session.id)
    with pytest.raises(BadScreenshot, match=words):
        await rig.client.turn(session.id, shot, epoch=0)
    assert await rig.client.session(session.id) == before
    assert await rig.types(session.id) == ["session.created", "pin.placed"]


async def test_only_so_many_screenshots_are_decoded_at_once(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
):
    lock, now, most = threading.Lock(), 0, 0

    def slow(*args, **kwargs):
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.05)  # in a thread
        with lock:
            now -= 1
        return open_sent(*args, **kwargs)

    monkeypatch.setattr(runs, "open_sent", slow)
    sessions = [await rig.client.create_session(new_session()) for _ in range(3 * MAX_DECODES)]
    results = await asyncio.gather(*(rig.client.turn(one.id, RED) for one in sessions))
    assert [result.turn for result in results] == [0] * len(sessions)
    assert most == MAX_DECODES


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"data": {"epoch": "0"}}, "screenshot"),
        ({"files": {"screenshot": RED}, "data": {"epoch": "one"}}, "epoch"),
        ({"files": {"screenshot": RED}, "data": {"epoch": "-1"}}, "epoch"),
        ({"files": {"screenshot": RED}, "data": {"outcome": "{}"}}, "status"),
        ({"files": {"screenshot": RED}, "data": {"outcome": "ok"}}, "JSON"),
        ({"files": {"screenshot": RED}, "data": {"instruction": "x" * 8001}}, "instruction"),
        ({"files": {"screenshot": RED}, "data": {"color": "red"}}, "unknown fields: color"),
        ({"files": {"screenshot": RED}, "data": {"compression": "fastv"}}, "JSON"),
        (
            {"files": {"screenshot": RED}, "data": {"compression": '{"pruning": {"method": 1}}'}},
            "pruning.method",
        ),
        ({"files": {"screenshot": RED}, "data": {"resend_thin": "perhaps"}}, "resend_thin"),
        ({"json": {"screenshot": {}}}, "exactly one of base64, blob and base"),
        ({"json": {"screenshot": {"blob": "../../etc/passwd"}}}, "screenshot.blob"),
        ({"json": {"screenshot": {"base64": "AA=="}, "more": 1}}, "more"),
        ({"json": {"screenshot": {"base64": "data:image/png;base64,AA=="}}}, "not base64"),
        ({"json": {"screenshot": {"base64": "\u00e9"}}}, "not base64"),
        ({"json": {"screenshot": {"base64": "A"}}}, "not base64"),
        ({"json": [1]}, "valid"),
        ({"content": b"{", "headers": {"content-type": "application/json"}}, "JSON"),
        ({"content": b"x", "headers": {"content-type": "text/plain"}}, "text/plain"),
        ({"content": b""}, "cannot be sent as"),
    ],
)
async def test_malformed_turns_are_refused(rig: Rig, request_, words):
    session = await rig.client.create_session(new_session())
    if "data" in request_ and "files" not in request_:
        request_ = {"files": {name: (None, value) for name, value in request_["data"].items()}}
    answer = await rig.http.post(f"/v1/sessions/{session.id}/turns", **request_)
    assert answer.status_code == 422, answer.text
    body = answer.json()
    assert body["code"] in ("invalid_request", "bad_screenshot")
    assert words in body["message"]
    assert body["session_id"] == session.id
    assert (await rig.client.session(session.id)).status.value == "idle"


async def test_whole_pictures_are_not_thinned(rig: Rig):
    session = await rig.client.create_session(new_session())
    asked = Compression(eviction=Eviction(method="vtw"))
    with pytest.raises(InvalidRequest, match="sends whole pictures"):
        await rig.client.turn(session.id, RED, compression=asked)
    assert (await rig.client.turn(session.id, RED, epoch=0)).turn == 0


async def test_stored_turns_can_be_paged(rig: Rig):
    session = await rig.client.create_session(new_session())
    results = [await rig.client.turn(session.id, RED) for _ in range(3)]
    path = f"/v1/sessions/{session.id}/turns"
    page = (await rig.http.get(path, params={"limit": 2})).json()
    assert [turn["epoch"] for turn in page["turns"]] == [0, 1]
    rest = (await rig.http.get(path, params={"after": page["next_cursor"]})).json()
    assert rest["turns"] == [results[2].model_dump(mode="json")]
