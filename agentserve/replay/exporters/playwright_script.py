"""Recordings as Python scripts of Playwright, which run by themselves.

Elements are found by role and name, test id, CSS, text or XPath, whichever a recording has, in this
order; what has none is done at its point. What a recording holds gets into the script as literals
of Python (python_text.py) and in no other way. Secrets are taken from environment variables of
their names when the script begins.
"""

from __future__ import annotations

from agentserve.replay.account import Account
from agentserve.replay.bundle.reader import Recording
from agentserve.replay.exporters.given import Given
from agentserve.replay.exporters.places import start_address
from agentserve.replay.exporters.playwright_lines import Writing
from agentserve.replay.exporters.python_text import SECRETS, Address, call, literal, secrets_in
from agentserve.replay.exporters.unheld import tell_unheld, tell_unjudged

_HELPERS = {
    "kind": '''
def kind(element: Locator) -> str:
    """The type of a field, or of the field that a label is of."""
    return element.evaluate("element => (element.control ?? element).type ?? ''")
''',
    "fill": '''
def fill(element: Locator, value: str) -> None:
    """Set a field, whatever it is."""
    if kind(element) in ("checkbox", "radio"):
        element.set_checked(value == "true")
    elif kind(element).startswith("select"):
        element.select_option(value)
    else:
        element.fill(value)
''',
    "expect_value": '''
def expect_value(element: Locator, value: str, timeout: float) -> None:
    """Wait until a field has a value; ``timeout`` in ms."""
    if kind(element) in ("checkbox", "radio"):
        expect(element).to_be_checked(checked=value == "true", timeout=timeout)
    else:
        expect(element).to_have_value(value, timeout=timeout)
''',
    "tab": '''
def tab(page: Page, tabs: list[Page], index: int) -> Page:
    """Bring a tab to the front; it may still be opening."""
    deadline = time.monotonic() + 10
    while len(tabs) <= index and time.monotonic() < deadline:
        page.wait_for_timeout(50)
    tabs[index].bring_to_front()
    return tabs[index]
''',
}


def give(recording: Recording) -> Given:
    """The recording as a script."""
    account = Account()
    writing = Writing(account)
    start = start_address(recording)
    body = [call("page.goto", Address(start))] if start else []
    for step in recording.taken:
        body += writing.lines(step)
    if any(step.screenshot for step in recording.steps):
        account.lose("the screenshots: the script compares nothing with them")
    tell_unjudged(recording, account)
    tell_unheld(recording, account, pointers=False)
    secrets, quotes = secrets_in(body)
    for name in secrets:
        account.lose(f"the secret {name}: the script takes the environment variable {name} for it")
    script = _script(recording, body, writing.uses, secrets, quotes)
    return Given(files={f"{recording.meta.id}.py": script.encode()}, lost=account.sentences())


def _script(
    recording: Recording, body: list[str], uses: set[str], secrets: list[str], quotes: bool
) -> str:
    meta = recording.meta
    names = ["BrowserContext", "sync_playwright"]
    names += ["Locator"] if "kind" in uses else []
    names += ["Page"] if "tab" in uses else []
    names += ["expect"] if uses & {"expect", "expect_value"} else []
    tabs = (
        ["tabs: list[Page] = []", 'context.on("page", lambda opened: tabs.append(opened))']
        if "tab" in uses
        else []
    )
    steps = "\n".join(f"    {line}" for line in [*tabs, "page = context.new_page()", *body])
    return _SCRIPT.format(
        id=meta.id,  # letters, digits, - and _
        times="import time\n" if "tab" in uses else "",
        quotes="from urllib.parse import quote\n" if quotes else "",
        names=", ".join(sorted(names, key=lambda name: (name[0].islower(), name))),
        task=literal(meta.task),
        viewport=literal(meta.viewport.model_dump()),
        scale=literal(max(meta.scale, 1.0)),  # below 1 only the pictures were made smaller
        secrets=_TAKE_SECRETS.format(names=literal(secrets), secrets=SECRETS) if secrets else "",
        helpers="".join(f"\n{text}" for name, text in _HELPERS.items() if name in uses),
        steps=steps,
    )


_TAKE_SECRETS = """\
# no recording holds a secret: it is taken from the environment variable of its name
{secrets} = {{name: os.environ.get(name, "") for name in {names}}}
if missing := [name for name, value in {secrets}.items() if not value]:
    raise SystemExit(
        f"set the environment variable {{' and '.join(missing)}}: the recording types a secret of "
        f"that name, and does not hold it. For example: read -rs {{missing[0]}}; "
        f"export {{missing[0]}}"
    )
"""
_SCRIPT = '''\
"""The recording {id}, to be run with Python. It needs Playwright and a Chromium: Playwright's own,
or the one that the environment's CHROMIUM names."""

import os
{times}{quotes}
from playwright.sync_api import {names}

TASK = {task}
VIEWPORT = {viewport}
SCALE = {scale}
{secrets}{helpers}

def run(context: BrowserContext) -> None:
{steps}


if __name__ == "__main__":
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ.get("CHROMIUM") or None)
        run(browser.new_context(viewport=VIEWPORT, device_scale_factor=SCALE))
        browser.close()
'''
