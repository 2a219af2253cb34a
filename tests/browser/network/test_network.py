"""What pages fetch: recorded from a real application, answered again without it, and compared."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from browser.network.app import make_app
from playwright.async_api import Browser
from starlette.applications import Starlette

from agentserve.browser.computer import PlaywrightComputer, open_computer
from agentserve.browser.network import Answering, NetworkRecording, Watching, read_har
from agentserve.browser.network.har import Answer
from agentserve.browser.network.recording import QUIET_S
from agentserve.browser.network.watching import _told
from agentserve.core.errors import RecordingError
from agentserve.core.runs import NetworkNote
from agentserve.core.screens import Size
from agentserve.replay.redaction.network import hidden_in_har
from agentserve.replay.redaction.secrets import Secrets
from agentserve.testing.server import LoopbackServer

VIEW = Size(width=300, height=280)

VISIT = """async () => {
  await ask('/count'); await ask('/count'); await ask('/count');
  await post('/echo', '{"a": 1, "b": [2]}'); await post('/echo', '{"a": 2}');
  await ask('/greet'); await ask('/old'); await ask('/broken');
  return said;
}"""


async def visit(computer: PlaywrightComputer) -> list[str]:
    await computer.load()
    return await computer.page.evaluate(VISIT)


@pytest.fixture(scope="module")
async def recorded(browser: Browser) -> AsyncIterator[tuple[str, bytes, list[str]]]:
    """The address of an application that is gone, what it was asked, what a page made of it."""
    recording = NetworkRecording()
    async with (
        LoopbackServer(make_app()) as server,
        open_computer(browser, f"{server.url}/", viewport=VIEW, network=recording) as computer,
    ):
        said = await visit(computer)
        await computer.page.goto(f"{server.url}/old")
        await computer.page.goto(f"{server.url}/")
        await computer.page.click("#send")
        await computer.page.wait_for_url("**/new")
        har = await recording.finish()
    yield server.url, har, said


async def test_a_file_that_grows_holds_every_request_once_in_its_order(browser: Browser) -> None:
    recording = NetworkRecording(growing=True)
    seen: list[str] = []
    async with (
        LoopbackServer(make_app()) as server,
        open_computer(browser, f"{server.url}/", viewport=VIEW, network=recording) as computer,
    ):
        computer.page.context.on("request", lambda request: seen.append(request.url))
        await visit(computer)
        for _ in range(3):
            await asyncio.sleep(2 * QUIET_S)
            await computer.page.evaluate("ask('/count')")
        files = recording._files
        har = json.loads(await recording.finish())
    assert files >= 3 and recording.missing == 0
    assert [entry["request"]["url"] for entry in har["log"]["entries"]] == seen


def test_cookies_are_left_out_of_what_is_recorded(recorded: tuple[str, bytes, list[str]]) -> None:
    _, har, said = recorded
    assert said[5] == '200 {"says":"hello","to":"you"}'
    assert b"geheim" not in har
    assert b"set-cookie" not in har.lower()


async def test_everything_is_answered_in_its_order_with_nothing_there(
    browser: Browser, recorded: tuple[str, bytes, list[str]]
) -> None:
    url, har, said = recorded
    assert [line for line in said if "count" in line] == [
        '200 {"count":1}', '200 {"count":2}', '200 {"count":3}',
    ]  # fmt: skip
    assert said[7] == "no answer"
    answering = Answering(read_har(har))
    async with open_computer(browser, f"{url}/", viewport=VIEW, network=answering) as computer:
        assert await visit(computer) == said
        page = computer.page
        # behind the last recorded answer, that one again
        assert await page.evaluate("() => ask('/count')") == '200 {"count":3}'
        # redirects of pages lead to another address, those of requests to another answer
        await page.goto(f"{url}/old", wait_until="commit")
        await page.wait_for_url("**/new")
        assert await page.inner_text("h1") == "the new page"
        await page.goto(f"{url}/")
        await page.click("#send")
        await page.wait_for_url("**/new")
        assert await answering.take_notes() == []


async def test_bodies_are_compared_by_what_they_say(
    browser: Browser, recorded: tuple[str, bytes, list[str]]
) -> None:
    url, har, _ = recorded
    answering = Answering(read_har(har))
    async with open_computer(browser, f"{url}/", viewport=VIEW, network=answering) as computer:
        await computer.load()
        said = await computer.page.evaluate("""async () => [
          await post('/echo', '{ "b": [2], "a": 1 }'),
          await post('/echo', '{"a": 2}'),
          await post('/echo', '{"a": 3}')]""")
        assert said == ['200 {"a": 1, "b": [2]}', '200 {"a": 2}', "no answer"]
        (note,) = await answering.take_notes()
        assert note.what == "missing" and note.request.startswith(f"POST {url}/echo with body ")


async def test_a_miss_fails_or_goes_live_and_is_told_in_both_cases(
    browser: Browser, recorded: tuple[str, bytes, list[str]]
) -> None:
    url, har, _ = recorded
    app = make_app(greeting="live")
    port = int(url.rpartition(":")[2])
    for on_miss, answer, then in (
        ("fail", "no answer", "failed"),
        ("live", '200 {"says":"live","to":"you"}', "fetched live"),
    ):
        answering = Answering(read_har(har), on_miss)
        async with (
            LoopbackServer(app, port=port),
            open_computer(browser, f"{url}/", viewport=VIEW, network=answering) as computer,
        ):
            await computer.load()
            ask = "() => ask('/greet?again')"
            assert await computer.page.evaluate(ask) == answer
            (note,) = await answering.take_notes()
            assert note.request == f"GET {url}/greet?again" and note.replayed == then
            assert app.state.counted["hits"] == (on_miss == "live")


async def test_no_socket_leaves_a_closed_replay(
    browser: Browser, recorded: tuple[str, bytes, list[str]]
) -> None:
    url, har, _ = recorded
    answering = Answering(read_har(har))
    async with open_computer(browser, f"{url}/", viewport=VIEW, network=answering) as computer:
        await computer.load()
        await computer.page.evaluate("""url => new Promise(resolve => {
          new WebSocket(url).onclose = resolve;
        })""", f"{url.replace('http', 'ws')}/live")  # fmt: skip
        (note,) = await answering.take_notes()
        assert note.request.startswith("WebSocket ws://127.0.0.1")


async def test_live_answers_are_compared_with_the_recorded_ones(
    browser: Browser, recorded: tuple[str, bytes, list[str]]
) -> None:
    url, har, _ = recorded
    notes: dict[str, list[Any]] = {}
    for greeting in ("hello", "good day"):
        watching = Watching(read_har(har), recorded_url=url)
        async with LoopbackServer(make_app(greeting)) as server:  # on another port
            async with open_computer(
                browser, f"{server.url}/", viewport=VIEW, network=watching
            ) as computer:
                await visit(computer)
                notes[greeting] = await watching.take_notes()
                if greeting == "hello":
                    await computer.page.evaluate("() => ask('/greet?new')")
                    (new,) = await watching.take_notes()
                    assert (new.what, new.replayed) == ("missing", "fetched live")
    assert notes["hello"] == []
    (changed,) = notes["good day"]
    assert changed.what == "answer" and changed.request.endswith("/greet")
    assert changed.recorded.startswith("200, ") and changed.recorded != changed.replayed


SLOWLY = "() => { fetch('/slow'); navigator.sendBeacon('/slow', 'x'); new EventSource('/stream'); }"


async def open_requests(
    browser: Browser, app: Starlette, har: bytes | None, url: str, wait_s: float
) -> tuple[list[NetworkNote], bytes]:
    """The notes at the end of a page that asks slowly; without ``har`` what it fetched."""
    network = NetworkRecording() if har is None else Watching(read_har(har), recorded_url=url)
    async with (
        LoopbackServer(app) as server,
        open_computer(browser, f"{server.url}/", viewport=VIEW, network=network) as computer,
    ):
        await computer.load()
        # what a page asks for is told of a moment after its script has asked
        async with computer.page.expect_request("**/stream"):
            await computer.page.evaluate(SLOWLY)
        if isinstance(network, NetworkRecording):
            await computer.page.wait_for_timeout(500)
            return [], (await network.finish()).replace(server.url.encode(), url.encode())
        return await computer.network_notes(wait_s), b""


async def test_requests_that_are_open_at_the_end_are_waited_for_and_judged(
    browser: Browser,
) -> None:
    url = "http://127.0.0.1:1"
    _, har = await open_requests(browser, make_app(), None, url, 0)
    begun = time.monotonic()
    notes, _ = await open_requests(browser, make_app(delay_s=0.5), har, url, 20)
    assert notes == [] and time.monotonic() - begun < 15, "streams are not waited for"
    notes, _ = await open_requests(browser, make_app("bye", delay_s=0.5), har, url, 20)
    (late,) = [note for note in notes if note.request.startswith("GET")]
    assert late.what == "answer" and "bye" in str(late.replayed)
    notes, _ = await open_requests(browser, make_app(delay_s=8), har, url, 0.5)
    (none,) = notes
    assert none.request.endswith("/slow") and none.replayed == "no answer within 0.5 s"
    assert none.what == "answer" and "hello" in str(none.recorded)


@pytest.mark.parametrize("network", [Answering, Watching])
async def test_requests_with_a_secret_are_those_that_were_recorded_without_it(
    browser: Browser, network: type[Answering] | type[Watching]
) -> None:
    secrets = Secrets({"PW": "hunter2: very/secret"})
    ask = """async value => {
      await ask('/greet?token=' + encodeURIComponent(value));
      await post('/echo', JSON.stringify({token: value}));
      return said;
    }"""
    recording = NetworkRecording()
    async with LoopbackServer(make_app()) as server:
        url = f"{server.url}/"
        async with open_computer(browser, url, viewport=VIEW, network=recording) as computer:
            await computer.load()
            await computer.page.evaluate(ask, "hunter2: very/secret")
            har = hidden_in_har(await recording.finish(), secrets)
        assert b"hunter2" not in har
        own = network(read_har(har), hidden=secrets.hidden)
        async with open_computer(browser, url, viewport=VIEW, network=own) as computer:
            await computer.load()
            said = await computer.page.evaluate(ask, "hunter2: very/secret")
            assert len(said) == 2 and "no answer" not in said
            assert await computer.network_notes() == []
            await computer.page.evaluate("v => ask('/new?' + v)", "hunter2: very/secret")
            (note,) = await computer.network_notes()
            assert note.what == "missing" and "hunter2" not in note.model_dump_json()


def entry(**response: Any) -> dict[str, Any]:
    given = {"status": 200, "headers": [], "content": {"text": "x"}} | response
    return {"request": {"method": "GET", "url": "http://a/"}, "response": given}


@pytest.mark.parametrize(
    ("har", "message"),
    [
        (b"", "no HAR file"),
        (b"[]", "no HAR file"),
        (b'{"log": {"entries": 3}}', "list of at most"),
        (b"[" * 100_000, "no HAR file"),
        ({"log": {"entries": [3]}}, "entries.0 cannot be read"),
        ({"log": {"entries": [entry(), entry(status="200")]}}, "entries.1 cannot be read"),
        ({"log": {"entries": [entry(content={"text": "%", "encoding": "base64"})]}}, "entries.0"),
        ({"log": {"entries": [entry(headers=[{"name": 1}])]}}, "entries.0 cannot be read"),
    ],
)
def test_what_is_no_har_file_is_refused(har: Any, message: str) -> None:
    with pytest.raises(RecordingError, match=message):
        read_har(har if isinstance(har, bytes) else json.dumps(har).encode())


def test_a_long_answer_is_told_where_it_begins_to_be_another_one() -> None:
    head = {"content-type": "text/html"}
    was, now = (
        Answer(200, head, f"<title>Shop</title>{'x' * 500}<b>{text}</b>".encode())
        for text in ("seven", "eight")
    )
    told = [_told(was, now), _told(now, was)]
    assert "<b>seven" in told[0] and "<b>eight" in told[1] and told[0].count("…x") == 1
    assert _told(was, was) == _told(was, was) and "<title>Shop" in _told(was, was)
    short = Answer(200, head, b"<p>A"), Answer(200, head, b"<p>B")
    assert _told(*short).endswith(": <p>A")
