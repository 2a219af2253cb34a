import hashlib
import json
from collections.abc import Callable
from email.parser import BytesParser
from pathlib import Path
from typing import Any

import httpx
import pytest
from replay.replay_builders import (
    DONE,
    make_png,
    make_result,
    make_session,
    make_steps,
    make_usage,
    record,
)
from rich.console import Console

from agentserve.client import RouterClient
from agentserve.core.actions import Click, Type
from agentserve.core.errors import AgentServeError, RecordingError, StaleEpoch, WorkerLost
from agentserve.core.screens import Size, screen_space
from agentserve.core.sessions import (
    InvalidAction,
    SessionCreate,
    SessionStatus,
    TurnResult,
)
from agentserve.replay import Recording, ReplayReport, read_recording, replay_model, replay_summary
from agentserve.replay.compare.expectations import (
    AcceptedAction,
    ActionRule,
    Expectations,
    StepExpectation,
    UsageRule,
    save_expectations,
)


class ScriptedRouter(httpx.MockTransport):
    """A router that answers turns from a script, checks epochs and remembers what it was sent."""

    def __init__(self, answers: list[TurnResult | AgentServeError], first_epoch: int = 5) -> None:
        super().__init__(self._handle)
        self.answers = answers
        self.epoch = first_epoch
        self.created: list[SessionCreate] = []
        self.turns: list[dict[str, bytes]] = []
        self.released: list[str] = []
        self.session_update: dict[str, Any] = {}
        self.refuses: dict[str, AgentServeError] = {}

    def _handle(self, request: httpx.Request) -> httpx.Response:
        try:
            return self._answer(request)
        except AgentServeError as error:
            return httpx.Response(error.status, json=error.body())

    def _answer(self, request: httpx.Request) -> httpx.Response:
        action = request.url.path.rsplit("/", 1)[-1]
        if action in self.refuses:
            raise self.refuses[action]
        if action == "sessions":
            self.created.append(SessionCreate.model_validate_json(request.content))
            session = make_session(id="s_replayed", epoch=self.epoch, **self.session_update)
            return httpx.Response(201, text=session.model_dump_json())
        assert request.url.path.startswith("/v1/sessions/s_replayed/")
        if action == "release":
            self.released.append("s_replayed")
            session = make_session(id="s_replayed", status=SessionStatus.RELEASED)
            return httpx.Response(200, text=session.model_dump_json())
        assert action == "turns"
        form = _form(request)
        if int(form["epoch"]) != self.epoch:
            raise StaleEpoch(f"epoch {form['epoch']!r}, the current one is {self.epoch}")
        answer = self.answers[len(self.turns)]
        self.turns.append(form)
        if isinstance(answer, AgentServeError):
            raise answer
        answer = answer.model_copy(
            update={
                "session_id": "s_replayed",
                "epoch": self.epoch,
                "screenshot": hashlib.sha256(form["screenshot"]).hexdigest(),
            }
        )
        self.epoch += 1
        return httpx.Response(200, text=answer.model_dump_json())


def _form(request: httpx.Request) -> dict[str, bytes]:
    head = f"Content-Type: {request.headers['content-type']}\r\n\r\n".encode()
    parts = BytesParser().parsebytes(head + request.content).get_payload()
    return {
        part.get_param("name", header="content-disposition"): part.get_payload(decode=True)
        for part in parts
    }


async def replayed(
    recording: Recording,
    answers: list[TurnResult | AgentServeError],
    *,
    router: Callable[[ScriptedRouter], None] = lambda router: None,
    **options: Any,
) -> tuple[ReplayReport, ScriptedRouter]:
    transport = ScriptedRouter(answers)
    router(transport)
    async with RouterClient("http://router", transport=transport) as client:
        return await replay_model(client, recording, **options), transport


def shown(report: ReplayReport, width: int = 120) -> str:
    console = Console(width=width, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(replay_summary(report))
    return capture.get()


async def test_a_replay_feeds_what_was_recorded(recording: Recording):
    report, router = await replayed(recording, [make_result(i) for i in range(3)])

    wanted = recording.meta.session.model_copy(update={"metadata": {"replay_of": "clean"}})
    assert router.created == [wanted]
    assert [turn["screenshot"] for turn in router.turns] == [make_png(i) for i in range(3)]
    assert [turn["epoch"] for turn in router.turns] == [b"5", b"6", b"7"]
    assert ["outcome" in turn for turn in router.turns] == [False, True, True]
    assert json.loads(router.turns[1]["outcome"]) == {"status": "ok", "message": "clicked"}
    assert not any("instruction" in turn for turn in router.turns)
    assert router.released == ["s_replayed"]

    assert report.same and report.error is None and report.complete
    assert [step.same for step in report.steps] == [True, True, True]
    assert report.session_id == "s_replayed"
    assert (report.recording, report.program) == ("clean", "navigator")
    assert report.totals.replayed_usage == report.totals.recorded_usage
    assert report.totals.recorded_usage.prompt_tokens == 200 + 290 + 380
    assert report.notes == []
    assert "✓ 3 of 3 steps the same, 0 different" in shown(report)


async def test_a_closing_step_is_no_turn(tmp_path: Path) -> None:
    async def left() -> tuple[str, bytes]:
        return "http://127.0.0.1:8000/after", make_png(9)

    end = DONE.model_copy(update={"end": "task_ended", "turns": 2})
    recorder = await record(tmp_path, make_steps(2), end=end, left=left)
    recording = read_recording(recorder.folder)
    assert len(recording.steps) == 3
    report, router = await replayed(recording, [make_result(i) for i in range(2)])
    assert report.same and len(router.turns) == report.totals.recorded_steps == 2
    assert "2 of 2 steps the same" in shown(report)


async def test_differences_are_found_and_the_recorded_path_is_kept(recording: Recording):
    answers = [
        make_result(0),
        make_result(1, action=Type(text="hello"), usage=make_usage(1, cached_tokens=0)),
        make_result(2, action=Click(x=50, y=60)),
    ]
    seen = []
    report, router = await replayed(recording, answers, expectations=within(0), on_step=seen.append)
    assert [step.same for step in report.steps] == [True, False, False]
    assert [
        d.model_dump(include={"field", "recorded", "replayed"}) for d in report.steps[1].differences
    ] == [{"field": "action", "recorded": "click 41 60", "replayed": 'type "hello"'}]
    assert [
        d.model_dump(include={"field", "recorded", "replayed"}) for d in report.steps[2].differences
    ] == [{"field": "action.point", "recorded": [42, 60], "replayed": [50, 60]}]
    assert [turn["screenshot"] for turn in router.turns] == [make_png(i) for i in range(3)]
    assert seen == report.steps
    assert not report.same
    totals = report.totals
    assert (totals.same, totals.different, totals.replayed_steps) == (1, 2, 3)
    assert totals.recorded_usage.cached_tokens - totals.replayed_usage.cached_tokens == 110
    assert report.steps[1].recorded.usage.cached_tokens == 110
    assert report.steps[1].replayed.usage.cached_tokens == 0

    text = shown(report)
    assert text.count("✗") == 3 and text.count("✓") == 1
    assert 'action: click 41 60 → type "hello"' in text
    assert "action.point: [42, 60] → [50, 60]" in text
    assert "110 → 0" in text
    assert "1 of 3 steps the same, 2 different" in text


def within(px: float) -> Expectations:
    return Expectations(actions=ActionRule(tolerance_px=px))


async def test_the_tolerance_is_in_css_px(recording: Recording):
    moved = [make_result(i, action=Click(x=43 + i, y=64)) for i in range(3)]
    report, _ = await replayed(recording, moved, expectations=within(5))
    assert report.same and report.settings == {"tolerance": "5 px"}
    assert "(tolerance 5 px)" in shown(report)
    report, _ = await replayed(recording, moved, expectations=within(4.9))
    assert report.totals.different == 3


async def test_what_the_recording_expects_holds_for_its_steps(recording: Recording):
    rules = Expectations(
        usage=UsageRule(max_turn_prefilled=94),
        steps=(
            StepExpectation(index=1, actions=ActionRule(checked=False)),
            StepExpectation(index=2, accepted_actions=(AcceptedAction(action=Type(text="x")),)),
        ),
    )
    save_expectations(recording.path, rules)
    other = [
        make_result(0),
        make_result(1, action=Type(text="a")),
        make_result(2, action=Type(text="x")),
    ]
    report, _ = await replayed(read_recording(recording.path), other)
    found = [(step.index, d.comparer, d.field) for step in report.steps for d in step.differences]
    assert found == [(i, "usage", "usage.prefilled_tokens") for i in range(3)]


async def test_a_prefix_that_breaks_and_a_budget_of_all_turns_are_told(recording: Recording):
    cold = [
        make_result(i, usage=make_usage(i, cached_tokens=0, stored_prefix_tokens=110 * (i > 0)))
        for i in range(3)
    ]
    rules = Expectations(usage=UsageRule(min_cached_share=0.5))
    report, _ = await replayed(recording, cold, expectations=rules)
    assert [[d.comparer for d in step.differences] for step in report.steps] == [
        [],
        ["prefix"],
        ["prefix"],
    ]
    assert [d.field for d in report.differences] == ["usage.cached_share"]
    assert not report.same


async def test_a_rebuilt_turn_is_compared_with_rebuilt_ones_alone(recording: Recording):
    answers = [make_result(i) for i in range(3)]
    answers[1] = make_result(1, action=Type(text="else"), rebuilt=True)
    report, _ = await replayed(recording, answers)
    assert report.same
    assert any("its answers are not compared" in note for note in report.notes)
    totals = report.totals
    assert (totals.same, totals.different, totals.not_compared) == (2, 0, 1)
    assert [step.compared for step in report.steps] == [True, False, True]
    assert "2 of 3 steps the same, 0 different, 1 not compared" in shown(report)
    assert "– step 1" in shown(report)


async def test_a_replay_that_compares_nothing_has_not_passed(recording: Recording):
    answers = [make_result(i, action=Type(text="else"), rebuilt=True) for i in range(3)]
    report, _ = await replayed(recording, answers)
    assert not report.same and report.totals.not_compared == 3
    assert "no step's decision was compared: that says nothing" in report.notes


async def test_an_invalid_answer_is_noted(recording: Recording):
    invalid = InvalidAction(text="clack 4", reason="unknown action 'clack'")
    answers = [make_result(0), make_result(1, action=None, invalid=invalid), make_result(2)]
    report, _ = await replayed(recording, answers)
    assert [d.field for d in report.steps[1].differences] == ["invalid", "action"]
    assert report.steps[1].replayed.invalid == invalid
    assert "invalid: none → clack 4" in shown(report)


async def test_a_report_is_json(recording: Recording):
    report, _ = await replayed(recording, [make_result(0), WorkerLost("gone"), make_result(2)])
    assert ReplayReport.model_validate_json(report.model_dump_json()) == report


async def test_an_error_of_the_router_ends_the_replay_and_is_reported(recording: Recording):
    lost = WorkerLost("the worker died", hint="ask again")
    report, router = await replayed(recording, [make_result(0), lost])
    assert report.error.model_dump() == {
        "index": 1,
        "code": "worker_lost",
        "message": "the worker died",
        "hint": "ask again",
    }
    assert not report.same
    assert (report.totals.recorded_steps, report.totals.replayed_steps) == (3, 1)
    assert report.totals.recorded_usage.prompt_tokens == 200, "sums of the replayed steps only"
    assert router.released == ["s_replayed"]
    text = shown(report)
    assert "error, step 1: the worker died (worker_lost)" in text
    assert "ask again" in text and "2 not replayed" in text


async def test_a_session_that_cannot_be_created_is_reported(recording: Recording):
    def refuse(router: ScriptedRouter) -> None:
        router.refuses["sessions"] = AgentServeError("no such program", hint="known: verifier")

    report, router = await replayed(recording, [], router=refuse)
    assert (report.error.index, report.error.message) == (None, "no such program")
    assert report.session_id is None and report.steps == [] and not report.same
    assert router.released == []
    assert "error, before the first step: no such program" in shown(report)


async def test_a_router_that_is_not_there_is_reported(recording: Recording):
    def handle(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    async with RouterClient("http://router", transport=httpx.MockTransport(handle)) as client:
        report = await replay_model(client, recording)
    assert report.error.code == "unavailable"


async def test_a_failed_release_does_not_hide_the_report(recording: Recording, caplog):
    def refuse(router: ScriptedRouter) -> None:
        router.refuses["release"] = AgentServeError("cannot")

    report, _ = await replayed(recording, [make_result(i) for i in range(3)], router=refuse)
    assert report.same
    assert "session s_replayed was not released: cannot" in caplog.text


async def test_a_damaged_screenshot_is_the_recording_s_fault(recording: Recording):
    sha = recording.steps[1].screenshot
    (recording.path / "screenshots" / f"{sha}.png").write_bytes(make_png(99))
    transport = ScriptedRouter([make_result(i) for i in range(3)])
    async with RouterClient("http://router", transport=transport) as client:
        with pytest.raises(RecordingError, match=sha):
            await replay_model(client, recording)
    assert len(transport.turns) == 1
    assert transport.released == ["s_replayed"]


async def test_a_cut_off_recording_replays_and_says_so(tmp_path: Path):
    recorder = await record(tmp_path, make_steps(2))
    report, _ = await replayed(read_recording(recorder.folder), [make_result(0), make_result(1)])
    assert report.same and not report.complete
    assert report.notes == ["the recorded run was cut off after 2 whole steps"]
    assert "note: the recorded run was cut off after 2 whole steps" in shown(report)


async def test_a_recording_without_steps_proves_nothing(tmp_path: Path):
    recorder = await record(tmp_path, [], end=DONE)
    report, router = await replayed(read_recording(recorder.folder), [])
    assert not report.same and report.error is None
    assert report.notes == ["the recording has no steps: nothing was compared"]
    assert router.released == ["s_replayed"]


async def test_another_token_grid_is_noted(recording: Recording):
    space = screen_space(Size(width=160, height=210), 1.4, 32)

    def other(router: ScriptedRouter) -> None:
        router.session_update["space"] = space

    report, _ = await replayed(recording, [make_result(i) for i in range(3)], router=other)
    assert report.notes == [
        f"the model looks at screens of {space.model} px now, of 224x280 px in the recording"
    ]


async def test_the_summary_cannot_steer_a_terminal(recording: Recording):
    evil = "\x1b[2J\x1b]0;owned\x07[red]bold[/red]\u202e" + "x" * 3000
    answers = [make_result(i, action=Type(text=evil[:1500])) for i in range(3)]
    report, _ = await replayed(recording, answers)
    report = report.model_copy(update={"task": evil, "notes": [evil]})
    text = shown(report)
    assert not any(sign in text for sign in "\x1b\x07\u202e")
    assert "[red]bold[/red]" in text, "markup of the model's stays text"
    assert "x" * 250 not in text.replace("\n", "")
