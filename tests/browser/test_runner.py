"""The loop, with a scripted computer and a router that answers from a script."""

from __future__ import annotations

import asyncio
import hashlib
import io
import subprocess
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from email import message_from_bytes
from typing import Any

import httpx
import pytest
from PIL import Image

from agentserve.browser.runner import run_task
from agentserve.browser.tasks import TaskState
from agentserve.client import RouterClient
from agentserve.core.actions import Action, CallUser, Click, Done, Drag, Type
from agentserve.core.config import RunConfig
from agentserve.core.elements import ElementTarget
from agentserve.core.errors import BrowserFailed, NoWorker, SessionClosed, TurnInProgress
from agentserve.core.runs import RunSummary, Step
from agentserve.core.screens import Size, screen_space
from agentserve.core.sessions import (
    InvalidAction,
    Outcome,
    Session,
    SessionStatus,
    Timings,
    TurnResult,
    Usage,
    WorkerRef,
)
from agentserve.testing.computer import ScriptedComputer, UnexpectedCall

SESSION = "s_0123456789012345678901"
HERE = Click(x=3, y=4)
Answer = Action | InvalidAction | Exception | None
OK = Outcome(status="ok")


def picture(shade: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (28, 28), (shade, shade, shade)).save(out, format="PNG")
    return out.getvalue()


A, B, C = picture(0), picture(100), picture(200)


def make_session(status: SessionStatus = SessionStatus.IDLE) -> Session:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Session(
        id=SESSION,
        status=status,
        program="navigator",
        task="Click the button.",
        model=None,
        policy="full",
        space=screen_space(Size(width=28, height=28), 1.0, grid=28),
        metadata={},
        created_at=now,
        expires_at=now,
        last_active_at=now,
        timeout_s=60,
        inactivity_timeout_s=60,
    )


class ScriptedRouter:
    """Answers turns from a list; keeps what was asked."""

    def __init__(self, answers: list[Answer]) -> None:
        self.answers = list(answers)
        self.turns: list[dict[str, Any]] = []
        self.released = 0

    def client(self) -> RouterClient:
        return RouterClient("http://router", transport=httpx.MockTransport(self._handle))

    async def _handle(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == f"/v1/sessions/{SESSION}/release":
            self.released += 1
            released = make_session(SessionStatus.RELEASED)
            return httpx.Response(200, json=released.model_dump(mode="json"))
        assert request.url.path == f"/v1/sessions/{SESSION}/turns"
        asked = form_of(request)
        self.turns.append(asked)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            if isinstance(answer, httpx.TransportError):
                raise answer
            retry_after = getattr(answer, "retry_after", None)
            headers = {"retry-after": str(retry_after)} if retry_after is not None else {}
            return httpx.Response(answer.status, json=answer.body(), headers=headers)
        invalid = isinstance(answer, InvalidAction)
        result = TurnResult(
            session_id=SESSION,
            turn=int(asked["epoch"]),
            epoch=int(asked["epoch"]),
            action=None if invalid else answer,
            invalid=answer if invalid else None,
            text="some words",
            usage=Usage(),
            timings=Timings(),
            worker=WorkerRef(id="w-0123456789", boot_id="b"),
            screenshot=hashlib.sha256(asked["screenshot"]).hexdigest(),
        )
        return httpx.Response(200, json=result.model_dump(mode="json"))


def form_of(request: httpx.Request) -> dict[str, Any]:
    """The fields of a multipart request."""
    head = f"content-type: {request.headers['content-type']}\r\n\r\n".encode()
    fields: dict[str, Any] = {}
    for part in message_from_bytes(head + request.content).walk():
        name = part.get_param("name", header="content-disposition")
        if isinstance(name, str):
            data = part.get_payload(decode=True)
            fields[name] = data if name == "screenshot" else data.decode()
    return fields


class Observer:
    """Keeps all it is told, in order."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.steps: list[Step] = []
        self.images: list[bytes] = []
        self.summary: RunSummary | None = None

    async def started(self, session: Session, url: str) -> None:
        assert session.id == SESSION
        self.calls.append(f"started {url}")

    async def screenshot(self, index: int, image: bytes) -> None:
        self.calls.append(f"screenshot {index}")
        self.images.append(image)

    async def step(self, step: Step) -> None:
        self.calls.append(f"step {step.index}")
        self.steps.append(step)

    async def ended(self, summary: RunSummary) -> None:
        self.calls.append(f"ended {summary.end}")
        self.summary = summary


def states(*successes: bool) -> Callable[[], Awaitable[TaskState]]:
    """A check that answers in turn."""
    left = list(successes)

    async def check() -> TaskState:
        reached = left.pop(0)
        return TaskState(done=reached, reward=float(reached), success=reached)

    return check


async def run(
    router: ScriptedRouter, computer: Any, *, config: RunConfig | None = None, **options: Any
) -> tuple[RunSummary, Observer]:
    observer = Observer()
    async with router.client() as client:
        summary = await run_task(
            client, computer, make_session(), config or RunConfig(), observers=[observer], **options
        )
    assert observer.summary == summary
    assert router.released == 1
    return summary, observer


def sent_outcomes(router: ScriptedRouter) -> list[Outcome | None]:
    return [
        Outcome.model_validate_json(turn["outcome"]) if "outcome" in turn else None
        for turn in router.turns
    ]


async def test_a_run_looks_asks_and_acts_until_the_task_is_reached() -> None:
    failed = Outcome(status="failed", message="it resisted")
    computer = ScriptedComputer([A, B], outcomes=[failed, OK])
    router = ScriptedRouter([HERE, Type(text="x")])
    summary, observer = await run(router, computer, check=states(False, True))
    assert summary == RunSummary(
        session_id=SESSION, end="task_ended", success=True, reward=1.0, turns=2
    )
    computer.assert_complete()
    assert computer.performed == [HERE, Type(text="x")]
    assert [(turn["epoch"], turn["screenshot"]) for turn in router.turns] == [("0", A), ("1", B)]
    assert sent_outcomes(router) == [None, failed]
    assert observer.images == [A, B]
    assert observer.calls == [
        "started http://scripted.invalid/",
        "screenshot 0",
        "step 0",
        "screenshot 1",
        "step 1",
        "ended task_ended",
    ]
    first, second = observer.steps
    assert (first.performed, first.outcome, first.outcome_sent) == (HERE, failed, None)
    assert (second.url, second.outcome_sent) == ("http://scripted.invalid/", failed)


@pytest.mark.parametrize(
    ("answer", "check", "expected"),
    [
        (Done(text="all set"), None, ("done", "all set", None)),
        (Done(text="all set"), states(False), ("done", "all set", False)),
        (CallUser(text="captcha"), None, ("call_user", "captcha", None)),
        (None, None, ("done", "some words", None)),
    ],
)
async def test_the_model_may_end_the_run_but_the_check_says_what_it_was_worth(
    answer: Answer, check: Any, expected: tuple[str, str, bool | None]
) -> None:
    summary, _ = await run(ScriptedRouter([answer]), ScriptedComputer([A]), check=check)
    assert (summary.end, summary.message, summary.success) == expected
    assert summary.turns == 1


async def test_a_run_ends_after_its_turns() -> None:
    summary, observer = await run(
        ScriptedRouter([HERE, HERE]), ScriptedComputer([A, B]), config=RunConfig(max_turns=2)
    )
    assert (summary.end, summary.turns, len(observer.steps)) == ("max_turns", 2, 2)


async def test_an_invalid_action_is_told_to_the_model_once() -> None:
    bad = InvalidAction(text="clik 3", reason="unknown action 'clik'")
    computer = ScriptedComputer([A, A, B, B, B])
    router = ScriptedRouter([bad, HERE, bad, bad])
    summary, observer = await run(router, computer)
    assert (summary.end, summary.message, summary.turns) == (
        "invalid_actions",
        "unknown action 'clik'",
        4,
    )
    told = Outcome(status="invalid", message="unknown action 'clik'")
    assert sent_outcomes(router) == [None, told, OK, told]
    assert computer.performed == [HERE]
    assert [step.performed for step in observer.steps] == [None, HERE, None, None]


async def test_a_step_tells_the_elements_that_its_action_was_aimed_at() -> None:
    button, shelf = ElementTarget(tag="button"), ElementTarget(tag="div")
    computer = ScriptedComputer([A, B, C, A], elements={(3, 4): button, (30, 4): shelf})
    router = ScriptedRouter([HERE, Drag(x=3, y=4, to_x=30, to_y=4), Type(text="x"), Done()])
    _, observer = await run(router, computer)
    assert [(step.target, step.to_target) for step in observer.steps] == [
        (button, None), (button, shelf), (None, None), (None, None),
    ]  # fmt: skip


async def test_a_repeated_action_on_the_same_screen_gets_a_nudge() -> None:
    warned = Outcome(status="failed", message="it resisted")
    computer = ScriptedComputer([A, A, A, A, B, B], outcomes=[OK, OK, warned, OK, OK, OK])
    router = ScriptedRouter([HERE] * 5 + [Done()])
    _, observer = await run(router, computer, config=RunConfig(repeat_limit=3))
    assert [step.outcome for step in observer.steps] == [OK, OK, warned, OK, OK, OK]
    outcomes = sent_outcomes(router)
    assert outcomes[1:3] == [OK, OK]
    assert outcomes[3] is not None and outcomes[3].status == "failed"
    assert outcomes[3].message.startswith("The same click has now been done 3 times")
    assert outcomes[3].message.endswith("it resisted")
    assert outcomes[4:] == [OK, OK]  # a fourth time; then on another screen


async def test_a_turn_is_asked_again_while_nobody_can_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    real_sleep = asyncio.sleep

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await real_sleep(0)

    monkeypatch.setattr("agentserve.browser.runner.asyncio.sleep", sleep)
    router = ScriptedRouter(
        [
            HERE,
            NoWorker("none ready", retry_after=3),
            httpx.ConnectError("refused"),
            TurnInProgress("still running"),
            Done(),
        ]
    )
    summary, _ = await run(router, ScriptedComputer([A, B]))
    assert (summary.end, summary.turns) == ("done", 2)
    assert [turn["epoch"] for turn in router.turns] == ["0", "1", "1", "1", "1"]
    assert {turn["screenshot"] for turn in router.turns[1:]} == {B}
    for pause, asked in zip(pauses, [3.0, 1.0, 2.0], strict=True):
        assert asked <= pause <= 1.25 * asked
    assert len({pause % 1 for pause in pauses}) == 3, "not all at the same moment"


async def test_a_router_that_stays_away_ends_the_run() -> None:
    router = ScriptedRouter([NoWorker("none ready", retry_after=5)])
    computer = ScriptedComputer([A])
    summary, _ = await run(router, computer, config=RunConfig(retry_timeout_s=1))
    assert (summary.end, summary.message) == ("error", "no_worker: none ready")
    assert len(router.turns) == 1


async def test_what_cannot_be_repaired_ends_the_run_at_once() -> None:
    router = ScriptedRouter([SessionClosed("the session was released")])
    summary, _ = await run(router, ScriptedComputer([A]))
    assert (summary.end, summary.turns) == ("error", 0)
    assert summary.message == "session_closed: the session was released"


async def test_a_failed_browser_ends_the_run() -> None:
    class Crashed(ScriptedComputer):
        async def screenshot(self) -> bytes:
            raise BrowserFailed("the page crashed")

    summary, observer = await run(ScriptedRouter([]), Crashed([]))
    assert (summary.end, summary.message) == ("error", "browser_failed: the page crashed")
    assert observer.steps == []


async def test_an_interrupted_run_is_recorded_and_released() -> None:
    observer, router = Observer(), ScriptedRouter([HERE])
    looking = asyncio.Event()

    class Slow(ScriptedComputer):
        async def screenshot(self) -> bytes:
            if self.performed:
                looking.set()
                await asyncio.sleep(600)
            return await super().screenshot()

    async with router.client() as client:
        task = asyncio.ensure_future(
            run_task(client, Slow([A]), make_session(), RunConfig(), observers=[observer])
        )
        await asyncio.wait_for(looking.wait(), 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert observer.summary is not None
    assert (observer.summary.end, observer.summary.turns) == ("interrupted", 1)
    assert router.released == 1


async def test_a_mistake_in_our_own_code_is_raised_after_the_run_is_closed() -> None:
    observer, router = Observer(), ScriptedRouter([HERE])
    async with router.client() as client:
        with pytest.raises(UnexpectedCall):
            await run_task(
                client, ScriptedComputer([A]), make_session(), RunConfig(), observers=[observer]
            )
    assert observer.calls[-1] == "ended error"
    assert router.released == 1


async def test_a_session_that_cannot_be_released_does_not_change_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    router = ScriptedRouter([Done()])

    async def handle(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/release"):
            raise httpx.ConnectError("refused")
        return await router._handle(request)

    transport = httpx.MockTransport(handle)
    async with RouterClient("http://router", transport=transport) as client:
        summary = await run_task(client, ScriptedComputer([A]), make_session(), RunConfig())
    assert summary.end == "done"
    assert "was not released" in caplog.text


def test_the_loop_needs_no_playwright() -> None:
    program = "import agentserve.browser.runner, sys; print('playwright' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
