"""The mode browser as agentserve replay runs it, on the bundled recordings' own pages."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from playwright.async_api import Browser
from replay.modes.browser_rig import write_steps
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from agentserve.browser.computer import open_computer
from agentserve.browser.network import NetworkRecording
from agentserve.core.actions import Click, Type, Wait
from agentserve.core.config import RunConfig
from agentserve.core.screens import Size
from agentserve.regression.accepting import accept_replayed
from agentserve.regression.options import ReplayOptions
from agentserve.regression.parts import Parts
from agentserve.regression.replaying import replay_one
from agentserve.replay import (
    EndLine,
    Meta,
    Recording,
    RecordingWriter,
    Replayed,
    ReplayReport,
    read_recording,
)
from agentserve.replay.bundle.format import NETWORK, STEPS
from agentserve.replay.bundle.verify import verify
from agentserve.replay.compare.accepting import all_differences
from agentserve.replay.compare.expectations import (
    ActionRule,
    Expectations,
    OutcomeRule,
    save_expectations,
)
from agentserve.replay.junit import write_junit
from agentserve.replay.pages.replay import write_replay_page
from agentserve.replay.redaction.redaction import Redaction
from agentserve.replay.redaction.secrets import Secrets
from agentserve.testing.server import LoopbackServer

BUNDLED = Path(__file__).parents[2] / "scenarios/miniwob/recordings"


def no_router() -> AbstractAsyncContextManager[Any]:
    raise AssertionError("a browser needs no router")


async def test_what_the_page_comes_to_is_compared(tmp_path: Path) -> None:
    """The task's own check, and what expect.json asks the page."""
    shutil.copytree(BUNDLED / "enter-text-0", tmp_path / "own")
    shutil.copytree(BUNDLED / "enter-text-0", tmp_path / "failing")
    lines = (tmp_path / "failing" / STEPS).read_text()
    (tmp_path / "failing" / STEPS).write_text(lines.replace("Agustina", "Agatha"))

    async with Parts(no_router) as parts:

        async def replayed(name: str, expression: str = "", equals: Any = True) -> ReplayReport:
            outcome = OutcomeRule(expression=expression or None, equals=equals)
            rules = Expectations(actions=ActionRule(), outcome=outcome)
            save_expectations(tmp_path / name, rules)
            recording = read_recording(tmp_path / name)
            return (await replay_one(parts, recording, name, ReplayOptions("browser"))).report

        same = await replayed("own", "document.querySelector('#tt').value", "Agustina")
        assert same.same, same.model_dump_json()
        for expression, told in {
            "1 + 1": "another value",
            "document.nobody.value": "the page answered",
            # values that JSON has not are no reason to end with a traceback
            "new Date(0)": "another value",
            "NaN": "another value",
            "1e400": "another value",
            "/x/": "another value",
            "new URL('http://a/')": "another value",
            "1n": "the page answered",
            "[1].map(function f() { const a = {}; a.a = a; return a; })": "the page answered",
            "undefined": "another value",
        }.items():
            report = await replayed("own", expression)
            (difference,) = report.differences
            assert (difference.comparer, difference.field) == ("outcome", "outcome.expression")
            assert told in difference.message and not report.same
        failed = await replayed("failing")
        assert "outcome.success" in [difference.field for difference in failed.differences]


PASSWORD = "hunter2: very/secret"
PAGE = """<!doctype html><title>Account</title>
<body style="font: 16px sans-serif; margin: 0">
<input id="token" aria-label="Token" style="width: 200px; height: 40px">
<button id="go" style="width: 90px; height: 44px">Go</button>
<p id="said"></p>
<script>
  const token = document.getElementById('token'), said = document.getElementById('said');
  document.getElementById('go').onclick = async () => {
    history.replaceState(null, '', '?token=' + encodeURIComponent(token.value));
    said.textContent = token.value;
    document.title = token.value;
    await fetch('/api?' + encodeURIComponent(token.value));
    alert('Stored ' + token.value);
  };
</script>"""


class Site:
    """A page that shows what is typed, and says it in its answers."""

    def __init__(self) -> None:
        self.page, self.answer = PAGE, "fine"
        routes = [Route("/", lambda _: HTMLResponse(self.page)), Route("/api", self._api)]
        self.app = Starlette(routes=routes)

    def _api(self, request: Request) -> Response:
        return Response(f"{self.answer} {request.url.query}", media_type="text/plain")


async def recorded(browser: Browser, root: Path, url: str, actions: Sequence[Any]) -> Recording:
    """As a person's recording with a secret is written."""
    network = NetworkRecording()
    view = Size(width=400, height=300)
    async with open_computer(browser, url, viewport=view, network=network) as computer:
        await computer.load()
        meta = Meta(
            id="own",
            created_at=datetime(2026, 1, 2, tzinfo=UTC),
            agentserve_version="0",
            source="person",
            url=computer.url,
            viewport=view,
        )
        writer = RecordingWriter(root, meta, Redaction((), Secrets({"PW": PASSWORD})))
        await write_steps(computer, writer, actions)
        writer.set_network(await network.finish())
        writer.append(EndLine(end="closed", turns=len(actions)))
    return read_recording(writer.folder)


def files_with_the_secret(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]


async def test_a_secret_is_no_difference_and_is_in_nothing_that_is_kept(tmp_path: Path) -> None:
    site = Site()
    actions = (
        Click(x=50, y=20),
        Type(text=PASSWORD),
        Click(x=250, y=20),
        Wait(seconds=1),
        Wait(seconds=1),
    )
    async with LoopbackServer(site.app) as server, Parts(no_router) as parts:
        recording = await recorded(await parts.browser(), tmp_path, f"{server.url}/", actions)
        assert files_with_the_secret(tmp_path) == []
        assert "%7B" not in recording.steps[-1].url and "{{secret:PW}}" in recording.steps[-1].url
        options = ReplayOptions("browser", secrets={"PW": PASSWORD})
        rules = Expectations(
            outcome=OutcomeRule(expression="document.title", equals="{{secret:PW}}")
        )
        save_expectations(recording.path, rules)
        own = await replay_one(parts, recording, "own", options)
        assert own.report.same, own.report.model_dump_json(indent=1)
        # all that can differ differs, and says the secret
        site.answer = "otherwise"
        site.page = PAGE.replace("'Stored '", "'Kept '").replace(
            "said.text", "said.after(token.value); said.text"
        )
        site.page = site.page.replace("'?token='", "'?key='")
        save_expectations(
            recording.path,
            Expectations(outcome=OutcomeRule(expression="[document.title, {a: document.title}]")),
        )
        other = await replay_one(parts, recording, "own", options)
        fields = {d.field for d in all_differences(other.report)}
        assert fields >= {
            "screen", "aria", "url", "outcome.message", "network.answer", "outcome.expression"
        }  # fmt: skip
        assert "hunter2" not in other.report.model_dump_json()
        accept_replayed(other)
        write_replay_page(tmp_path / "page.html", [other], title="it")
        write_junit(tmp_path / "junit.xml", [other.report])
        assert files_with_the_secret(tmp_path) == []


async def test_what_was_recorded_passes_no_more_once_another_was_accepted(tmp_path: Path) -> None:
    site = Site()
    was = site.page.replace("alert(", "void (")
    now = was.replace(">Go<", ">Run<").replace("width: 200px", "width: 240px")
    site.page = was
    options = ReplayOptions("browser")
    async with LoopbackServer(site.app) as server, Parts(no_router) as parts:
        browser, url = await parts.browser(), f"{server.url}/"
        recording = await recorded(
            browser, tmp_path, url, (Click(x=245, y=20), Click(x=290, y=200))
        )
        (recording.path / NETWORK).unlink()  # what pages fetched is never accepted
        recording = read_recording(recording.path)

        async def replayed(page: str) -> tuple[Replayed, set[str]]:
            site.page = page
            result = await replay_one(parts, recording, "own", options)
            return result, {each.comparer for each in all_differences(result.report)}

        assert (await replayed(was))[1] == set()
        other, found = await replayed(now)
        assert found == {"screen", "aria", "action"}
        accept_replayed(other)
        assert (await replayed(now))[1] == set()
        back, found = await replayed(was)
        assert found == {"screen", "aria", "action"}
        write_replay_page(tmp_path / "page.html", [back], title="it")
        accept_replayed(back, also=True)
        assert (await replayed(was))[1] == (await replayed(now))[1] == set()
        assert verify(recording.path) == []


async def test_what_the_last_step_leads_to_is_waited_for_or_said_not_to_be_looked_at(
    tmp_path: Path,
) -> None:
    site = Site()
    site.page = PAGE.replace("alert(", "void (").replace("await fetch", "fetch")
    async with LoopbackServer(site.app) as server, Parts(no_router) as parts:
        actions = (Click(x=50, y=20), Type(text="plain"), Click(x=250, y=20))
        recording = await recorded(await parts.browser(), tmp_path, f"{server.url}/", actions)

        async def replayed(expression: str | None = None) -> ReplayReport:
            rules = Expectations(outcome=OutcomeRule(expression=expression))
            save_expectations(recording.path, rules)
            return (await replay_one(parts, recording, "own", ReplayOptions("browser"))).report

        report = await replayed()
        assert report.same, report.model_dump_json(indent=1)
        assert any("the last step led to" in note for note in report.notes)
        assert not any("the last step" in note for note in (await replayed("true")).notes)
        site.page = site.page.replace("fetch(", "setTimeout(() => fetch('/later'), 1); fetch(")
        site.app.routes.append(Route("/later", later))
        report = await replayed()
        late = [each for each in report.differences if each.message.endswith("/later")]
        assert [(each.field, each.replayed) for each in late] == [
            ("network.missing", "fetched live")
        ]


async def later(request: Request) -> Response:
    await asyncio.sleep(RunConfig().settle_timeout_s + 2)  # no step waits for so long
    return Response("late")
