"""Recordings replayed in a real Chromium, on the pages they were made on and on others."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Route
from replay.modes.browser_rig import (
    changed_page,
    comparers,
    record_scenario,
    replay_on,
)

from agentserve.browser.computer import PlaywrightComputer
from agentserve.browser.network import Answering, Watching, read_har
from agentserve.core.actions import Back, Click, Done, Key, Navigate, Scroll, Type
from agentserve.core.actions.recorded import CloseTab, Fill, OpenTab, Reload, Unsupported
from agentserve.core.errors import BrowserFailed, InvalidRequest, RecordingError
from agentserve.core.sessions import Outcome
from agentserve.replay import Recording, StepLine, read_recording
from agentserve.replay.bundle.verify import verify
from agentserve.replay.modes.places import Places
from agentserve.replay.results import ReplayReport

SIGN_IN = "admin/sign-in"
LOGIN = "login.html"
ACTIONS = (
    Click(x=794, y=173),
    Type(text="ada@example.com"),
    Click(x=794, y=239),
    Type(text="analytical"),
    Click(x=794, y=343),
    Scroll(x=560, y=400, dy=224),
    Done(),
)


@pytest.fixture(scope="module")
async def recording(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return await record_scenario(browser, tmp_path_factory.mktemp("made"), SIGN_IN, ACTIONS)


def changed(recording: Recording, *changes: tuple[int, dict[str, Any]]) -> Recording:
    """The recording with fields of steps replaced."""
    steps = list(recording.steps)
    for index, fields in changes:
        steps[index] = StepLine.model_validate(steps[index].model_dump() | fields)
    return dataclasses.replace(recording, steps=tuple(steps))


async def test_the_same_site_gives_no_difference(browser: Browser, recording: Recording) -> None:
    told: list[int] = []
    report = await replay_on(
        browser, recording, SIGN_IN, on_step=lambda step: told.append(step.index)
    )
    assert report.same, [step.differences for step in report.steps]
    assert (report.mode, report.totals.same, report.complete) == ("browser", 7, True)
    assert told == [0, 1, 2, 3, 4, 5, 6]
    last = report.steps[-1].replayed
    assert last.screenshot == report.steps[-1].recorded.screenshot


async def test_a_moved_button_is_seen_and_still_hit(
    browser: Browser, recording: Recording, tmp_path: Path
) -> None:
    moved = (
        'class="btn btn-primary',
        'style="position: relative; top: 40px" class="btn btn-primary',
    )
    pages = changed_page(tmp_path, SIGN_IN, LOGIN, moved)
    shutil.copytree(recording.path, tmp_path / "own")
    recording = read_recording(tmp_path / "own")
    report = await replay_on(browser, recording, SIGN_IN, pages=pages, late_s=0.5, accept=True)
    assert comparers(report) == [["screen"]] * 4 + [["action", "screen"], [], []]
    (point,) = [each for each in report.steps[4].differences if each.comparer == "action"]
    assert (point.field, point.recorded, point.replayed) == (
        "action.point", [794, 343], [794, 383],
    )  # fmt: skip
    assert report.steps[4].replayed.action == Click(x=794, y=383)
    assert report.totals.replayed_steps == 7
    updated = read_recording(recording.path)
    assert (await replay_on(browser, updated, SIGN_IN, pages=pages)).same
    assert verify(recording.path) == []


async def test_a_changed_colour_is_a_matter_of_the_screen_alone(
    browser: Browser, recording: Recording, tmp_path: Path
) -> None:
    style = ("</head>", "<style>.btn-primary { background: #2e59d9 !important }</style></head>")
    pages = changed_page(tmp_path, SIGN_IN, LOGIN, style)
    report = await replay_on(browser, recording, SIGN_IN, pages=pages, late_s=0.5)
    assert comparers(report) == [["screen"]] * 5 + [[], []]


async def test_a_changed_text_is_in_the_aria_snapshot(
    browser: Browser, recording: Recording, tmp_path: Path
) -> None:
    pages = changed_page(tmp_path, SIGN_IN, LOGIN, ("Welcome Back!", "Welcome back, you"))
    report = await replay_on(browser, recording, SIGN_IN, pages=pages, late_s=0.5)
    assert comparers(report) == [["aria", "screen"]] * 5 + [[], []]


async def test_an_extra_dialog_is_part_of_what_became_of_the_action(
    browser: Browser, recording: Recording, tmp_path: Path
) -> None:
    dialog = ("<body", "<body onclick=\"event.target.id === 'exampleInputEmail' && alert('Hi')\"")
    pages = changed_page(tmp_path, SIGN_IN, LOGIN, dialog)
    report = await replay_on(browser, recording, SIGN_IN, pages=pages, late_s=0.5)
    assert comparers(report) == [["outcome"]] + [[]] * 6
    (difference,) = report.steps[0].differences
    assert (difference.field, difference.replayed) == ("outcome.message", 'The page said: "Hi"')


async def test_a_slower_page_is_no_difference(
    browser: Browser, recording: Recording, tmp_path: Path
) -> None:
    late = (
        "</head>",
        """<script>
          addEventListener('DOMContentLoaded', () => {
            document.body.style.visibility = 'hidden';
            setTimeout(() => { document.body.style.visibility = ''; }, 1500);
          });
        </script></head>""",
    )

    async def slow_down(computer: PlaywrightComputer) -> None:
        async def slow(route: Route) -> None:
            response = await route.fetch()
            await computer.page.wait_for_timeout(700)
            await route.fulfill(response=response)

        await computer.page.context.route("**/*.css", slow)

    pages = changed_page(tmp_path, SIGN_IN, LOGIN, late)
    report = await replay_on(browser, recording, SIGN_IN, pages=pages, prepare=slow_down)
    assert report.same, [step.differences for step in report.steps]


async def test_an_element_that_is_gone_is_told(
    browser: Browser, recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentserve.browser.recorded.APPEAR_TIMEOUT_S", 0.2)
    start = (' <a href="index.html" class="btn btn-primary', "<template><a ")
    end = ('<a href="index.html" class="btn btn-google', '</template><a class="btn btn-google')
    pages = changed_page(tmp_path, SIGN_IN, LOGIN, start, end)
    report = await replay_on(browser, recording, SIGN_IN, pages=pages, late_s=0.3)
    fields = {each.field: each for each in report.steps[4].differences}
    assert {"action.target", "screen", "aria"} <= set(fields)
    # the first link of the form is another one now
    assert fields["action.target"].recorded == "Login"
    assert fields["action.target"].replayed == "Login with Google"
    urls = [each for each in report.steps[5].differences if each.field == "url"]
    assert urls[0].comparer == "outcome"
    assert urls[0].recorded.endswith("/index.html") and urls[0].replayed.endswith("/login.html")


async def test_recordings_that_look_at_a_page_in_other_px_are_fitted(
    browser: Browser, tmp_path: Path
) -> None:
    name = "miniwob/enter-text"
    actions = (Click(x=80, y=74), Type(text="Ignacio"), Key(keys="Control+a"), Key(keys="Delete"))
    recording = await record_scenario(browser, tmp_path, name, actions)
    report = await replay_on(browser, recording, name)
    assert report.same, [step.differences for step in report.steps]


async def test_an_empty_tab_has_an_empty_snapshot(browser: Browser, tmp_path: Path) -> None:
    recording = await record_scenario(browser, tmp_path, SIGN_IN, (OpenTab(), CloseTab()))
    report = await replay_on(browser, recording, SIGN_IN)
    assert report.same, [step.differences for step in report.steps]


async def test_going_to_pages_of_the_recorded_origin_goes_to_the_live_one(
    browser: Browser, recording: Recording
) -> None:
    there = recording.meta.url.replace("login", "register")
    steps = changed(
        recording,
        (0, {"performed": Navigate(url=there), "target": None}),
        (1, {"url": there, "screenshot": None, "aria": None, "performed": Back()}),
        (2, {"performed": Reload(), "screenshot": None, "aria": None, "target": None}),
    )
    report = await replay_on(
        browser, dataclasses.replace(steps, steps=steps.steps[:3]), SIGN_IN, late_s=0.5
    )
    assert comparers(report) == [[], [], []]
    assert report.steps[1].replayed.screenshot is not None


async def test_what_the_last_act_led_to_is_compared_with_the_closing_step(
    browser: Browser, tmp_path: Path
) -> None:
    done = await record_scenario(browser, tmp_path, "miniwob/click-test", [Click(x=60, y=70)])
    assert any("the last step led to" in note for note in (await on_test(browser, done)).notes)
    closed = await record_scenario(
        browser, tmp_path / "closed", "miniwob/click-test", [Click(x=60, y=70), None]
    )
    report = await on_test(browser, closed)
    assert report.same and report.notes == [] and len(report.steps) == 2
    assert report.steps[1].recorded.action is None
    assert [step.closing for step in report.steps] == [False, True]

    async def otherwise(computer: PlaywrightComputer) -> None:
        await computer.page.evaluate(
            """addEventListener('click', () => document.body.insertAdjacentHTML('beforeend',
            '<b style="position: fixed; top: 40px; left: 0">One more thing'))"""
        )

    report = await on_test(browser, closed, prepare=otherwise)
    assert [step.same for step in report.steps] == [True, False]
    assert "screen" in {each.comparer for each in report.steps[1].differences}
    assert (await on_test(browser, closed, prepare=otherwise, accept=True)).same is False
    assert (await on_test(browser, closed, prepare=otherwise)).same


async def test_a_recording_may_end_with_its_only_tab_closed(
    browser: Browser, tmp_path: Path
) -> None:
    """As codegen and Chrome's Recorder write it."""
    acts = [Click(x=60, y=70), CloseTab()]
    recording = await record_scenario(browser, tmp_path, "miniwob/click-test", acts)
    closed = recording.steps[1].model_copy(update={"outcome": Outcome(status="ok")})
    recording = dataclasses.replace(recording, steps=(recording.steps[0], closed))
    report = await on_test(browser, recording)
    assert report.same, [step.differences for step in report.steps]
    first, last = (
        step.model_copy(update={"index": index})
        for index, step in enumerate((closed, recording.steps[0]))
    )
    early = dataclasses.replace(recording, steps=(first, last))
    report = await on_test(browser, early)
    assert not report.steps[0].same


async def on_test(browser: Browser, recording: Recording, **options: Any) -> ReplayReport:
    return await replay_on(browser, recording, "miniwob/click-test", **options)


async def test_a_step_without_an_equal_ends_the_replay_unless_it_is_gone_by(
    browser: Browser, recording: Recording
) -> None:
    steps = changed(recording, (5, {"performed": Unsupported(what="a pinch"), "target": None}))
    report = await replay_on(browser, steps, SIGN_IN, late_s=0.3)
    assert report.error is not None
    assert (report.error.index, report.error.code) == (5, "unsupported_step")
    assert "a pinch" in report.error.message
    report = await replay_on(browser, steps, SIGN_IN, late_s=0.3, go_by_unsupported=True)
    assert report.error is None and "step 5 was gone by: a pinch" in report.notes


async def test_a_page_that_is_no_more_ends_the_replay_and_is_reported(
    browser: Browser, recording: Recording
) -> None:
    async def spoil(computer: PlaywrightComputer) -> None:
        async def fail(*_: Any) -> Any:
            raise BrowserFailed("the page crashed")

        computer.perform_recorded = fail  # type: ignore[method-assign]

    report = await replay_on(browser, recording, SIGN_IN, prepare=spoil)
    assert report.error is not None
    assert (report.error.index, report.error.code, report.steps) == (0, "browser_failed", [])


async def test_a_damaged_entry_is_raised(browser: Browser, recording: Recording) -> None:
    steps = changed(recording, (0, {"screenshot": "0" * 64}))
    with pytest.raises(RecordingError, match="screenshots/0000"):
        await replay_on(browser, steps, SIGN_IN)


async def test_secrets_are_filled_in_and_not_told(browser: Browser, recording: Recording) -> None:
    def fill(action: Any) -> Any:
        if not isinstance(action, Fill):
            return action
        return action.model_copy(
            update={"value": action.value.replace("{{secret:P}}", "analytical")}
        )

    steps = changed(
        recording,
        (2, {"performed": Type(text="")}),
        (3, {"performed": Fill(value="{{secret:P}}"), "screenshot": None, "aria": None,
             "target": recording.steps[2].target}),
        (4, {"screenshot": None, "aria": None}),
    )  # fmt: skip
    report = await replay_on(browser, steps, SIGN_IN, fill=fill)
    assert report.same, [step.differences for step in report.steps]
    assert "analytical" not in report.model_dump_json()

    def refuse(action: Any) -> Any:
        raise InvalidRequest("the secret P is not given")

    report = await replay_on(browser, steps, SIGN_IN, fill=refuse)
    assert report.error is not None and report.error.code == "invalid_request"


async def test_a_recorded_network_needs_no_site(browser: Browser, recording: Recording) -> None:
    """The pages that are served now are broken; none of them is asked for."""
    har = recording.network()
    assert har is not None
    answering = Answering(read_har(har), recorded_url=recording.meta.url)

    async def nothing_was_fetched(computer: PlaywrightComputer) -> None:
        assert computer.page.url.endswith("/login.html")

    report = await replay_on(
        browser,
        recording,
        SIGN_IN,
        pages=changed_page(Path(recording.path).parent / "broken", SIGN_IN, LOGIN, ("Welcome", "")),
        prepare=nothing_was_fetched,
        network=answering,
    )
    assert report.same, [step.differences for step in report.steps]


@pytest.mark.parametrize(
    ("recorded", "live", "same"),
    [
        ("http://127.0.0.1:1/a?b#c", "http://127.0.0.1:2/a?b#c", True),
        ("http://127.0.0.1:1/a", "http://127.0.0.1:2/b", False),
        ("http://other/a", "http://other/a", True),
        ("http://other/a", "http://127.0.0.1:2/a", False),
        ("", "http://127.0.0.1:2/a", True),
        ("about:blank", "about:blank", True),
    ],
)
def test_addresses_are_compared_as_of_the_live_site(recorded: str, live: str, same: bool) -> None:
    places = Places("http://127.0.0.1:1/", "http://127.0.0.1:2/x")
    assert places.same(recorded, live) is same


def test_other_tools_do_not_tell_of_a_page_s_own_anchors() -> None:
    ours, theirs = (Places("http://a/", "http://b/", anchors=own) for own in (True, False))
    assert not ours.same("http://a/x", "http://b/x#part")
    assert theirs.same("http://a/x", "http://b/x#part")
    assert not theirs.same("http://a/x#one", "http://b/x#part")
    assert not theirs.same("http://a/y", "http://b/x#part")


async def test_a_changed_network_answer_is_told_by_the_request(
    browser: Browser, tmp_path: Path
) -> None:
    """The theme's own tables page, whose numbers come from a JSON file now."""
    script = (
        "</head>",
        """<script>
          addEventListener('DOMContentLoaded', async () => {
            const answer = await (await fetch('figures.json')).json();
            document.querySelector('.h4').dataset.figure = answer.figure;
          });
        </script></head>""",
    )
    pages = changed_page(tmp_path / "then", SIGN_IN, LOGIN, script)
    (pages / "figures.json").write_text('{"figure": 1, "unit": "EUR"}')
    actions = (Click(x=794, y=173), Click(x=794, y=239))
    made = tmp_path / "made"
    recording = await record_scenario(browser, made, SIGN_IN, actions, pages=pages)
    har = recording.network()
    assert har is not None
    now = changed_page(tmp_path / "now", SIGN_IN, LOGIN, script)
    for answer, told in (
        ('{"unit":"EUR", "figure":1}', [[], []]),
        ('{"unit":"EUR", "figure":2}', [["network"], []]),
    ):
        (now / "figures.json").write_text(answer)
        watching = Watching(read_har(har), recorded_url=recording.meta.url)
        report = await replay_on(browser, recording, SIGN_IN, pages=now, network=watching)
        assert comparers(report) == told
    (difference,) = report.steps[0].differences
    assert difference.field == "network.answer"
    assert difference.message.endswith("/figures.json")
