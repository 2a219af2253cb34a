"""Recordings as scripts, run in a real Chromium by the installed Playwright."""

from __future__ import annotations

import ast
import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from replay.exporters.test_chrome_export import BUTTON, EVERY
from replay.exporters.test_python_text import HOSTILE
from replay.playwright_made import PAGES

from agentserve.browser.pages import serve_pages
from agentserve.core.actions import Click, Done, Drag, Key, Navigate, Type
from agentserve.core.actions.recorded import (
    ClickElement,
    Fill,
    KeyDown,
    OpenTab,
    Resize,
    SwitchTab,
    Unsupported,
    WaitFor,
)
from agentserve.core.config import chromium_path
from agentserve.core.elements import ElementTarget, PageBox, Selector
from agentserve.core.screens import Size
from agentserve.core.sessions import Outcome
from agentserve.replay import Recording, StepLine, read_recording
from agentserve.replay.exporters.playwright_script import give
from agentserve.replay.importers.taken import Taken, write_taken


@pytest.fixture(scope="module")
async def base() -> AsyncIterator[str]:
    async with serve_pages(PAGES) as url:
        yield url


def by(engine: Any, value: str, **more: Any) -> ElementTarget:
    return ElementTarget(selectors=((Selector(engine=engine, value=value, **more),),))


def recorded(
    folder: Path,
    *steps: tuple[Any, ElementTarget | None],
    url: str = "",
    task: str = "",
    **every: Any,
) -> Recording:
    lines = tuple(
        StepLine(index=index, url=url, performed=action, target=target, **every)
        for index, (action, target) in enumerate(steps)
    )
    size = Size(width=1120, height=672)
    taken = Taken(format="other", viewport=size, steps=lines, url=url, task=task)
    return read_recording(write_taken(folder, "r", taken))


def script_of(recording: Recording) -> str:
    (script,) = give(recording).files.values()
    ast.parse(script)
    return script.decode()


async def run(folder: Path, script: str, **variables: str) -> tuple[int, str]:
    path = folder / "r.py"
    path.write_text(script)
    chromium = chromium_path() or Path("/usr/bin/chromium")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        path,
        env=os.environ | ({"CHROMIUM": str(chromium)} if chromium.exists() else {}) | variables,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode is not None
    return process.returncode, output.decode()


@pytest.fixture
def visit(tmp_path: Path, base: str) -> Recording:
    """A visit of the admin site, with an assertion of each kind."""
    email = by("css", "#exampleInputEmail")
    remember = by("text", "Remember Me")
    return recorded(
        tmp_path,
        (Fill(value="ada@example.com"), email),
        (Key(keys="Home"), email),
        (Type(text="x"), email),
        (WaitFor(value="xada@example.com"), email),
        (Fill(value="true"), remember),
        (WaitFor(value="true"), remember),
        (Click(x=560, y=300), by("aria", "Forgot Password?", role="link")),
        (WaitFor(text="Forgot Your Password?"), by("css", "h1")),
        (Navigate(url="tables.html"), None),
        (Fill(value="25"), by("css", "select", nth=0)),
        (WaitFor(value="25"), by("css", "select", nth=0)),
        (Fill(value="Edinburgh"), by("aria", "Search:")),
        (WaitFor(text="Showing 1 to 9 of 9 entries"), by("css", "#dataTable_info")),
        (ClickElement(), by("css", "#userDropdown")),
        (WaitFor(), by("text", "Activity Log")),
        (OpenTab(url=f"{base}/login.html"), None),
        (WaitFor(text="Welcome Back!"), by("css", "h1")),
        (SwitchTab(index=0), None),
        (WaitFor(), by("css", "#dataTable_info")),
        (WaitFor(expression="location.pathname === '/tables.html'"), None),
        url=f"{base}/login.html",
    )


async def test_a_script_does_in_chromium_what_was_recorded(
    tmp_path: Path, visit: Recording
) -> None:
    code, output = await run(tmp_path, script_of(visit))
    assert code == 0, output


async def test_a_script_fails_when_the_page_is_not_as_recorded(
    tmp_path: Path, visit: Recording
) -> None:
    """The check of the test above: what it asserts is looked at."""
    script = script_of(visit)
    for right, wrong in (("Forgot Your", "Forgot Their"), ("timeout=10000", "timeout=500")):
        assert right in script
        script = script.replace(right, wrong)
    code, output = await run(tmp_path, script)
    assert code == 1 and "Forgot Their" in output


async def test_texts_of_a_recording_run_nothing(tmp_path: Path, base: str) -> None:
    mark = tmp_path / "run"
    attack = f"open({str(mark)!r}, 'w')"
    texts = [f'"""\n{attack}\n"""', f"')\n    {attack}\n('", f'"); {attack}; ("', *HOSTILE[:5]]
    field = by("css", "#exampleInputEmail")
    steps: list[tuple[Any, ElementTarget | None]] = []
    for text in texts:
        steps += [(Fill(value=text), field), (Unsupported(what=text or "x"), None)]
        steps += [(WaitFor(visible=False, timeout_s=0.2), by("aria", text, role=text))]
        steps += [(WaitFor(visible=False, timeout_s=0.2), by("css", f"#a >> {text}"))]
    recording = recorded(tmp_path, *steps, url=f"{base}/login.html", task="\n".join(texts))
    script = script_of(recording)
    calls = {
        node.func.id
        for node in ast.walk(ast.parse(script))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert calls <= {"fill", "kind", "expect", "expect_value", "sync_playwright", "run"}
    await run(tmp_path, script)  # a selector that is none ends it early, which is as good
    assert not mark.exists()


@pytest.mark.parametrize("target", [BUTTON, None], ids=["element", "point"])
def test_every_action_gives_lines_or_is_told(tmp_path: Path, target: ElementTarget | None) -> None:
    recording = recorded(tmp_path, *((action, target) for action in EVERY), url="http://a/")
    given = give(recording)
    (script,) = given.files.values()
    ast.parse(script)
    left_out = script.decode().count("is left out")
    kinds = {action.kind for action in EVERY}
    if target is None:
        assert {"fill", "click_element", "hover_element"} < kinds and left_out == 7
    else:
        assert left_out == 1
    assert any("a miracle" in told for told in given.lost)


def body(script: str) -> list[str]:
    run_body = script.split("page = context.new_page()\n", 1)[1].split("\n\n\n", 1)[0]
    return [line.strip() for line in run_body.splitlines()]


@pytest.mark.parametrize(
    ("action", "target", "line"),
    [
        (Click(x=3, y=4), BUTTON, 'page.get_by_role("button", name="Save", exact=True).click()'),
        (Click(x=3, y=4), None, "page.mouse.click(3, 4)"),
        (Click(x=3, y=4, button="right"), by("test_id", "a"),
         'page.get_by_test_id("a").click(button="right")'),
        (ClickElement(clicks=3), by("css", "#a >> b", nth=2),
         'page.locator("css=#a >> b").nth(2).click(click_count=3)'),
        (ClickElement(modifiers=("Shift",)), ElementTarget(
            box=PageBox(x=10, y=10, width=4, height=4), offset=(1, 1)),
         'page.keyboard.down("Shift")'),
        (ClickElement(), ElementTarget(selectors=((
            Selector(engine="xpath", value="(//iframe | //frame)[1]"),
            Selector(engine="css", value="#in")),), offset=(3, 4)),
         'page.locator("xpath=(//iframe | //frame)[1]").content_frame.locator("#in")'
         '.click(position={"x": 3, "y": 4})'),
        (ClickElement(), ElementTarget(selectors=((
            Selector(engine="css", value="div.iframe-like"),
            Selector(engine="css", value="#in")),)),
         'page.locator("div.iframe-like").locator("#in").click()'),
        (Navigate(url="b.html"), None, 'page.goto("http://a/b.html")'),
        (Drag(x=1, y=2, to_x=3, to_y=4), BUTTON, "page.mouse.move(1, 2)"),
    ],
)  # fmt: skip
def test_lines_are_what_a_person_would_write(
    tmp_path: Path, action: Any, target: ElementTarget | None, line: str
) -> None:
    lines = body(script_of(recorded(tmp_path, (action, target), url="http://a/")))
    assert line in lines


def test_the_likeliest_selector_to_hold_is_taken(tmp_path: Path) -> None:
    """The role with a name, of what Chrome gives: a name alone comes after CSS."""
    chains = (
        (Selector(engine="xpath", value="//a"),),
        (Selector(engine="aria", value="Save"),),
        (Selector(engine="css", value="#save"),),
    )
    for extra, line in (
        ((), 'page.locator("#save").click()'),
        (((Selector(engine="test_id", value="s"),),), 'page.get_by_test_id("s").click()'),
        (((Selector(engine="aria", value="", role="button"),),), 'page.locator("#save").click()'),
    ):
        target = ElementTarget(selectors=(*chains, *extra))
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        assert line in body(script_of(recorded(folder, (ClickElement(), target), url="http://a/")))


GO = 'page.goto("http://a/")'


@pytest.mark.parametrize(
    ("actions", "goes"),
    [
        ((Click(x=1, y=2), Navigate(url="b")), True),
        ((Resize(size=Size(width=9, height=9)), Click(x=1, y=2), Navigate(url="b")), True),
        ((Navigate(url="b"), Click(x=1, y=2)), False),
        ((Resize(size=Size(width=9, height=9)), Navigate(url="b")), False),
    ],
)
def test_a_script_goes_to_its_address_unless_it_begins_by_going_somewhere(
    tmp_path: Path, actions: tuple[Any, ...], goes: bool
) -> None:
    script = script_of(recorded(tmp_path, *((act, None) for act in actions), url="http://a/"))
    assert (GO in body(script)) == goes


SECRET = "{{secret:PASSWORD}}"


@pytest.mark.parametrize(
    ("action", "line"),
    [
        (Fill(value=SECRET), 'fill(page.locator("#a"), SECRETS["PASSWORD"])'),
        (Type(text=f"a{SECRET}b"),
         'page.locator("#a").press_sequentially("a" + SECRETS["PASSWORD"] + "b")'),
        (Navigate(url=f"/x?q={SECRET}"),
         'page.goto("http://a/x?q=" + quote(SECRETS["PASSWORD"], safe=""))'),
        (OpenTab(url=f"http://b/{SECRET}"),
         'page.goto("http://b/" + quote(SECRETS["PASSWORD"], safe=""))'),
        (WaitFor(value=SECRET), 'expect_value(page.locator("#a"), SECRETS["PASSWORD"], 10000)'),
        (Done(text=SECRET), '# done: "{{secret:PASSWORD}}"'),
    ],
)  # fmt: skip
def test_secrets_are_taken_from_the_environment(tmp_path: Path, action: Any, line: str) -> None:
    recording = recorded(tmp_path, (action, by("css", "#a")), url="http://a/", task=SECRET)
    script = script_of(recording)
    assert line in body(script)
    reads = 'SECRETS = {name: os.environ.get(name, "") for name in ["PASSWORD"]}' in script
    told = "the secret PASSWORD: the script takes the environment variable PASSWORD for it"
    assert reads == (told in give(recording).lost) == (action.kind != "done")
    assert ("from urllib.parse import quote" in script) == ("quote(" in line)


def test_what_only_looks_like_a_secret_reads_no_environment(tmp_path: Path) -> None:
    text = 'SECRETS["HOME"] {{secret:a b}} {{secret:}}'
    script = script_of(recorded(tmp_path, (Type(text=text), None), url="http://a/"))
    assert "SECRETS = " not in script


def test_a_selector_without_a_secret_is_the_likelier_to_hold(tmp_path: Path) -> None:
    chains = ((Selector(engine="aria", value=SECRET, role="link"),),)
    other = ((Selector(engine="css", value="#a"),),)
    for selectors, line in (
        (chains + other, 'page.locator("#a").click()'),
        (chains, 'page.get_by_role("link", name=SECRETS["PASSWORD"], exact=True).click()'),
    ):
        folder = tmp_path / str(len(selectors))
        target = ElementTarget(selectors=selectors)
        assert line in body(script_of(recorded(folder, (ClickElement(), target))))


async def test_a_script_types_the_secret_of_its_environment(tmp_path: Path, base: str) -> None:
    email = by("css", "#exampleInputEmail")
    recording = recorded(
        tmp_path,
        (Fill(value=f"{SECRET}@a"), email),
        (WaitFor(expression="document.querySelector('#exampleInputEmail').value == 'h&n \"r@a'"),
         None),
        (Navigate(url=f"{base}/login.html?q={SECRET}"), None),
        (WaitFor(expression="new URLSearchParams(location.search).get('q') == 'h&n \"r'"), None),
        url=f"{base}/login.html",
    )  # fmt: skip
    code, output = await run(tmp_path, script_of(recording), PASSWORD='h&n "r')
    assert code == 0, output
    for given in ({}, {"PASSWORD": ""}):
        code, output = await run(tmp_path, script_of(recording), **given)
        assert code == 1 and "Traceback" not in output
        assert output.startswith("set the environment variable PASSWORD: the recording types a")
        assert "read -rs PASSWORD; export PASSWORD" in output


STUB = """
class Playwright:
    def __enter__(self):
        self.chromium = self
        return self
    def __exit__(self, *error):
        return True
    def launch(self, **options):
        print(options)
        raise SystemExit
sync_playwright, BrowserContext, Page, Locator, expect = Playwright, object, object, object, None
"""


@pytest.mark.parametrize("chromium", ["", "/opt/chromium"])
async def test_a_script_starts_playwrights_own_browser_unless_it_is_told_another(
    tmp_path: Path, chromium: str
) -> None:
    stub = tmp_path / "stub" / "playwright"
    stub.mkdir(parents=True)
    (stub / "__init__.py").touch()
    (stub / "sync_api.py").write_text(STUB)
    script = script_of(recorded(tmp_path, (Click(x=1, y=2), None)))
    code, output = await run(tmp_path, script, PYTHONPATH=str(stub.parent), CHROMIUM=chromium)
    assert (code, output) == (0, f"{{'executable_path': {chromium or None!r}}}\n")


def test_what_failed_then_is_told_unless_it_is_left_out(tmp_path: Path) -> None:
    steps = ((Click(x=1, y=2), None), (Fill(value="x"), None), (Done(), None))
    lost = give(recorded(tmp_path, *steps, outcome=Outcome(status="failed"))).lost
    assert "step 0: it failed when it was recorded, and is done all the same" in lost


def test_keys_are_for_their_element(tmp_path: Path) -> None:
    there = by("css", "#a")
    down = 'page.keyboard.down("a")'
    script = script_of(recorded(tmp_path, (KeyDown(key="a"), there), (KeyDown(key="a"), there)))
    assert body(script) == ['page.locator("#a").focus()', down, down]
    nowhere = ElementTarget(box=PageBox(x=1, y=2, width=3, height=4))
    acts = (Click(x=2, y=3), Type(text="x"), Key(keys="Tab"), Key(keys="a"))
    lost = give(recorded(tmp_path / "b", *((act, nowhere) for act in acts))).lost
    told = "no selector finds its element: its keys go to what has the focus"
    assert [one for one in lost if told in one] == [f"step 3: {told}"]
