"""``agentserve record``: somebody acts, and the recording replays without a difference."""

from __future__ import annotations

import asyncio
import html
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from playwright.async_api import Browser, async_playwright
from playwright.async_api import Error as PlaywrightError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route
from typer.testing import CliRunner

from agentserve.browser.computer import PlaywrightComputer, open_computer
from agentserve.browser.launch import connect_browser, find_chromium, launch_browser
from agentserve.browser.network import Answering, NetworkRecording, read_har
from agentserve.browser.network.recording import QUIET_S
from agentserve.browser.pages import serve_pages
from agentserve.browser.person import PersonSession
from agentserve.browser.scenarios import load_scenario
from agentserve.cli import app
from agentserve.cli.record_person import PersonOptions, PersonRecorded, record_person
from agentserve.core.actions import Click, Key, Type
from agentserve.core.actions.recorded import Fill
from agentserve.core.errors import BrowserFailed, InvalidRequest
from agentserve.core.pages import PageSettings
from agentserve.core.screens import Size
from agentserve.replay import Recording, read_recording
from agentserve.replay.bundle.verify import verify
from agentserve.replay.compare.aria import aria_differences
from agentserve.replay.compare.screens import screen_differences
from agentserve.replay.modes.browser import replay_browser
from agentserve.replay.redaction.secrets import revealed
from agentserve.replay.results import ReplayReport
from agentserve.testing.server import LoopbackServer

VIEW = Size(width=1120, height=672)
PASSWORD = "analytical"
Person = Callable[[PlaywrightComputer, PersonSession], Awaitable[None]]
SETTINGS = PageSettings(
    fixed_time=datetime(2026, 1, 2, tzinfo=UTC),
    random_seed=5,
    animations=False,
    fonts_awaited=True,
    network="recorded",
)


@pytest.fixture(scope="module")
async def site() -> AsyncIterator[str]:
    async with serve_pages(*load_scenario("admin/sign-in").folders) as base:
        yield f"{base}/login.html"


async def calm(session: PersonSession, act: Awaitable[Any]) -> None:
    session.ready.clear()
    await act
    await asyncio.wait_for(session.ready.wait(), 20)


async def signs_in(computer: PlaywrightComputer, session: PersonSession) -> None:
    """What a person does on the theme's pages: a form, a link, a menu."""
    page = computer.page
    await asyncio.wait_for(session.ready.wait(), 20)
    await calm(session, page.click("#exampleInputEmail"))
    await calm(session, page.keyboard.type("ada@example.com"))
    await calm(session, page.keyboard.press("Tab"))
    await calm(session, page.keyboard.type(PASSWORD))
    await calm(session, page.click("label[for=customCheck]"))
    await calm(session, page.click("text=Login >> nth=0"))
    await page.wait_for_url("**/index.html")
    await calm(session, page.click("text=Components"))
    await calm(session, page.mouse.wheel(0, 300))


async def recorded_by(
    browser: Browser, options: PersonOptions, person: Person
) -> tuple[PersonRecorded, Recording]:
    stop = asyncio.Event()
    acting: list[asyncio.Task[None]] = []

    async def act(computer: PlaywrightComputer, session: PersonSession) -> None:
        await person(computer, session)
        stop.set()

    def begin(session: PersonSession, computer: PlaywrightComputer) -> None:
        acting.append(asyncio.ensure_future(act(computer, session)))

    recorded = await record_person(browser, options, stop=stop, on_start=begin)
    await asyncio.gather(*acting)
    return recorded, read_recording(recorded.folder)


async def replay(browser: Browser, recording: Recording, url: str, **options: Any) -> ReplayReport:
    meta = recording.meta
    async with open_computer(
        browser, url, viewport=meta.viewport, settings=meta.page, masks=meta.masks, **options
    ) as computer:
        await computer.load()
        replayed = await replay_browser(
            computer,
            recording,
            compare_screens=lambda step, was, now: screen_differences(
                was, now, viewport=meta.viewport
            ),
            compare_aria=lambda step, was, now: aria_differences(was, now),
            fill=partial(revealed, secrets={"PASSWORD": PASSWORD}),
        )
    return replayed.report


def told(report: ReplayReport) -> list[str]:
    """The differences, for people."""
    return [
        f"step {step.index}: {each.model_dump_json(exclude_defaults=True)[:600]}"
        for step in report.steps
        for each in step.differences
    ] + [str(report.error)]


@pytest.fixture(scope="module")
async def made(
    browser: Browser, site: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[PersonRecorded, Recording]:
    options = PersonOptions(
        url=site,
        out=tmp_path_factory.mktemp("recordings"),
        viewport=VIEW,
        task="Sign in",
        allow=("https://elsewhere.example/x",),
        settings=SETTINGS,
    )
    return await recorded_by(browser, options, signs_in)


async def test_what_a_person_did_is_a_sound_recording(
    made: tuple[PersonRecorded, Recording],
) -> None:
    recorded, recording = made
    assert verify(recorded.folder) == []
    assert (recording.meta.source, recording.meta.task) == ("person", "Sign in")
    assert recording.meta.allow == ["https://elsewhere.example"]
    assert recording.complete and recorded.steps == len(recording.steps)
    actions = [step.performed for step in recording.steps]
    assert [type(action) for action in actions[:6]] == [Click, Type, Key, Fill, Click, Click]
    assert actions[1] == Type(text="ada@example.com")
    assert actions[-1] is None
    assert all(step.screenshot and step.aria for step in recording.steps)
    texts = [step.target.text for step in recording.steps if step.target]
    assert "Login" in texts and "Components" in texts


async def test_the_password_is_nowhere(made: tuple[PersonRecorded, Recording]) -> None:
    recorded, recording = made
    assert recorded.secrets == ("PASSWORD",) and recorded.refused == 0
    assert recording.steps[3].performed == Fill(value="{{secret:PASSWORD}}")
    for path in recorded.folder.rglob("*"):
        if path.is_file():
            assert PASSWORD.encode() not in path.read_bytes(), path


async def test_it_replays_without_a_difference(
    browser: Browser, site: str, made: tuple[PersonRecorded, Recording]
) -> None:
    report = await replay(browser, made[1], site)
    assert report.same, told(report)


async def test_it_replays_without_the_site(
    browser: Browser, made: tuple[PersonRecorded, Recording]
) -> None:
    """Nothing listens at the address: all that the pages get was recorded."""
    har = made[1].network()
    assert har is not None
    url = "http://127.0.0.1:9/login.html"
    answering = Answering(read_har(har), recorded_url=made[1].meta.url)
    report = await replay(browser, made[1], url, network=answering)
    assert report.same, told(report)


async def test_an_interruption_ends_a_recording_well(
    browser: Browser, site: str, tmp_path: Path
) -> None:
    started: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    options = PersonOptions(url=site, out=tmp_path, viewport=VIEW)
    recording = asyncio.ensure_future(
        record_person(
            browser,
            options,
            stop=asyncio.Event(),
            on_start=lambda session, computer: started.set_result((session, computer)),
        )
    )
    session, computer = await started
    await asyncio.wait_for(session.ready.wait(), 20)
    await calm(session, computer.page.click("#exampleInputEmail"))
    recording.cancel()
    recorded = await recording
    made = read_recording(recorded.folder)
    assert made.complete and [type(step.performed) for step in made.steps] == [Click, NoneType]


async def test_a_closed_window_ends_a_recording_with_its_network(
    browser: Browser, site: str, tmp_path: Path
) -> None:
    async def leaves(computer: PlaywrightComputer, session: PersonSession) -> None:
        await asyncio.wait_for(session.ready.wait(), 20)
        await calm(session, computer.page.click("#exampleInputEmail"))
        await computer.page.close()
        await session.over.wait()

    options = PersonOptions(url=site, out=tmp_path, viewport=VIEW, settings=SETTINGS)
    recorded, recording = await recorded_by(browser, options, leaves)
    # the page as it was left was seen before it was closed
    assert [type(step.performed) for step in recording.steps] == [Click, NoneType]
    assert verify(recorded.folder) == []
    har = recording.network()
    assert har is not None and b"login.html" in har


async def test_a_password_too_short_to_be_found_keeps_the_network_out(
    browser: Browser, site: str, tmp_path: Path
) -> None:
    async def types(computer: PlaywrightComputer, session: PersonSession) -> None:
        await asyncio.wait_for(session.ready.wait(), 20)
        await calm(session, computer.page.click("#exampleInputPassword"))
        await calm(session, computer.page.keyboard.type("abc"))

    options = PersonOptions(url=site, out=tmp_path, viewport=VIEW, settings=SETTINGS)
    recorded, recording = await recorded_by(browser, options, types)
    (warning,) = recorded.warnings
    assert warning.startswith("network.har is left out: a password is too short")
    assert recording.complete and recording.meta.page.network == "live"
    assert verify(recorded.folder) == [] and not (recorded.folder / "network.har").exists()
    assert recording.steps[1].performed == Fill(value="{{secret:PASSWORD}}")


FORM = """<!doctype html><title>Sign in</title><h1>Signing in</h1><form action=/in>
<input type=password name=pw aria-label=Password
  oninput="fetch('/meter?v=' + encodeURIComponent(this.value))"><button>Go</button></form>"""


async def echo(request: Request) -> HTMLResponse:
    """Shows what it was sent, as careless pages do."""
    sent = "".join(f"<p>{html.escape(value)}</p>" for value in request.query_params.values())
    return HTMLResponse(FORM + sent)


@pytest.fixture
async def careless() -> AsyncIterator[str]:
    """A site that sends what is typed at each key, and shows it."""
    async with LoopbackServer(Starlette(routes=[Route("/{path:path}", echo)])) as server:
        yield f"{server.url}/"


async def signs_in_carelessly(
    computer: PlaywrightComputer, session: PersonSession, password: str
) -> None:
    page = computer.page
    await asyncio.wait_for(session.ready.wait(), 20)
    await calm(session, page.click("[name=pw]"))
    for text in (password[:1], password[1:], "x"):
        await calm(session, page.keyboard.type(text))
    await calm(session, page.keyboard.press("Backspace"))
    await calm(session, page.click("button"))
    await page.wait_for_url("**/in?*")
    await calm(session, page.click("h1"))
    await asyncio.sleep(2 * QUIET_S)


def traces_in(folder: Path, password: str) -> list[str]:
    """Files that hold it, or more of it than its first characters, in any common form."""
    texts = {password, password[:-1], f"{password}x"}
    forms = {form for text in texts for form in (
        text, quote(text, safe=""), quote_plus(text), json.dumps(text)[1:-1], html.escape(text),
    )}  # fmt: skip
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".png"]
    return [
        f"{path.name}: {form}" for path in files for form in forms
        if form.encode() in path.read_bytes()
    ]  # fmt: skip


@pytest.mark.parametrize("password", ["hunter2!", "pa\"ss\\w'x y"])
async def test_no_text_that_was_in_a_password_field_is_in_any_file(
    browser: Browser, careless: str, tmp_path: Path, password: str
) -> None:
    options = PersonOptions(url=careless, out=tmp_path, viewport=VIEW, settings=SETTINGS)
    person = partial(signs_in_carelessly, password=password)
    recorded, recording = await recorded_by(browser, options, person)
    assert traces_in(tmp_path, password) == []
    assert recorded.secrets == ("PASSWORD",) and recorded.warnings == ()
    assert recording.meta.secrets == ["PASSWORD"] and verify(recorded.folder) == []
    assert recording.steps[-1].url == f"{careless}in?pw={{{{secret:PASSWORD}}}}"
    aria = recording.aria(recording.steps[-1].aria or "")
    assert "Signing in" in aria and "paragraph: " in aria and "{{secret:PASSWORD}}" in aria
    har = recording.network()
    assert har is not None and b"in?pw={{secret:PASSWORD}}" in har


async def test_what_was_written_before_a_password_was_typed_is_hidden_afterwards(
    browser: Browser, careless: str, tmp_path: Path
) -> None:
    async def types(computer: PlaywrightComputer, session: PersonSession) -> None:
        await asyncio.wait_for(session.ready.wait(), 20)
        await calm(session, computer.page.click("h1"))
        await calm(session, computer.page.click("[name=pw]"))
        await calm(session, computer.page.keyboard.type("shown-before"))

    options = PersonOptions(url=f"{careless}?hint=shown-before", out=tmp_path, viewport=VIEW)
    recorded, recording = await recorded_by(browser, options, types)
    assert traces_in(tmp_path, "shown-before") == [] and verify(recorded.folder) == []
    assert recording.meta.url == recording.steps[0].url
    assert recording.meta.url.endswith("?hint={{secret:PASSWORD}}")


async def test_a_browser_that_is_quit_leaves_a_sound_recording_with_its_network(
    careless: str, tmp_path: Path
) -> None:
    async def quits(computer: PlaywrightComputer, session: PersonSession) -> None:
        await signs_in_carelessly(computer, session, "hunter2!")
        await quit_browser(computer, session)

    options = PersonOptions(url=careless, out=tmp_path, viewport=VIEW, settings=SETTINGS)
    async with launch_browser() as own:
        recorded, recording = await recorded_by(own, options, quits)
    assert recording.complete and verify(recorded.folder) == [] and recorded.warnings == ()
    har = recording.network()
    assert har is not None and b"in?pw={{secret:PASSWORD}}" in har
    assert traces_in(tmp_path, "hunter2!") == []


async def test_a_browser_that_is_quit_at_once_leaves_a_sound_recording_without_a_network(
    careless: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentserve.browser.network.recording.QUIET_S", 60.0)
    finish, gone = NetworkRecording.finish, asyncio.Event()

    async def finish_when_it_is_gone(recording: NetworkRecording) -> bytes:
        await asyncio.wait_for(gone.wait(), 20)
        return await finish(recording)

    monkeypatch.setattr(NetworkRecording, "finish", finish_when_it_is_gone)

    async def quits(computer: PlaywrightComputer, session: PersonSession) -> None:
        await asyncio.wait_for(session.ready.wait(), 20)
        await calm(session, computer.page.click("h1"))
        await quit_browser(computer, session)

    options = PersonOptions(url=careless, out=tmp_path, viewport=VIEW, settings=SETTINGS)
    async with launch_browser() as own:
        own.on("disconnected", lambda browser: gone.set())
        recorded, recording = await recorded_by(own, options, quits)
    (warning,) = recorded.warnings
    assert "network.har is left out: the network was not recorded" in warning
    assert recording.meta.page.network == "live" and verify(recorded.folder) == []
    assert [type(step.performed) for step in recording.steps] == [Click, NoneType]


async def quit_browser(computer: PlaywrightComputer, session: PersonSession) -> None:
    browser = computer.page.context.browser
    assert browser is not None
    devtools = await browser.new_browser_cdp_session()
    with suppress(PlaywrightError):  # it is gone before it answers
        await devtools.send("Browser.close")
    await session.over.wait()


async def test_a_running_browser_is_used_in_a_window_of_its_own(site: str, tmp_path: Path) -> None:
    async def clicks(computer: PlaywrightComputer, session: PersonSession) -> None:
        await asyncio.wait_for(session.ready.wait(), 20)
        await calm(session, computer.page.click("#exampleInputEmail"))

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with async_playwright() as playwright:
        theirs = await playwright.chromium.launch(
            executable_path=find_chromium(),
            args=[f"--remote-debugging-port={port}", "--no-sandbox"],
        )
        own = await theirs.new_page()
        async with connect_browser(f"http://127.0.0.1:{port}") as attached:
            options = PersonOptions(url=site, out=tmp_path, viewport=VIEW)
            _, recording = await recorded_by(attached, options, clicks)
        assert [type(step.performed) for step in recording.steps] == [Click, NoneType]
        assert theirs.is_connected() and not own.is_closed()
        await theirs.close()


async def test_only_browsers_of_this_machine_are_attached_to() -> None:
    with pytest.raises(InvalidRequest, match="not on this machine"):
        async with connect_browser("http://192.0.2.1:9222"):
            pass
    with pytest.raises(BrowserFailed, match="no browser answers"):
        async with connect_browser("http://127.0.0.1:9"):
            pass


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--url", "file:///etc/passwd"], "not an http or https address"),
        (["--url", "http://127.0.0.1:9/", "--fixed-time", "noon"], "--fixed-time is a time"),
        (["--url", "http://127.0.0.1:9/", "--viewport", "1x"], "--viewport is WIDTHxHEIGHT"),
        (["--url", "http://127.0.0.1:9/", "--mask", "1,2"], "--mask is X,Y,WIDTH,HEIGHT"),
        (["--url", "http://127.0.0.1:9/"], "cannot open http://127.0.0.1:9/"),
    ],
)
def test_what_cannot_be_recorded_is_told(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    command = ["record", "--headless", "--out", str(tmp_path), *arguments]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 1
    assert message in str(result.exception)
    assert list(tmp_path.iterdir()) == []
