"""``agentserve record``: a person acts in a browser, and that is the recording."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentserve.cli.console import command, err, out, plain, run_until_signal
from agentserve.cli.pages import Animations, FixedTime, Har, RandomSeed, page_settings
from agentserve.cli.redaction import Mask, Secret, redacted
from agentserve.cli.run import parse_size

if TYPE_CHECKING:
    from playwright.async_api import Browser

    from agentserve.cli.record_person import PersonOptions, PersonRecorded
    from agentserve.replay import StepLine


def record(
    url: Annotated[str, typer.Option(help="Page to start on.")],
    task: Annotated[str, typer.Option(help="What is done, for people who read it.")] = "",
    recordings: Annotated[
        Path, typer.Option("--out", help="Folder that the recording is written to.")
    ] = Path("recordings"),
    viewport: Annotated[str, typer.Option(help="Browser viewport in CSS px.")] = "1120x672",
    allow: Annotated[
        list[str] | None, typer.Option(help="Further origin that may be visited; repeatable.")
    ] = None,
    cdp: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Use the browser that listens there, as http://127.0.0.1:9222, in a window of "
            "its own.",
        ),
    ] = None,
    har: Har = False,
    random_seed: RandomSeed = None,
    fixed_time: FixedTime = None,
    animations: Animations = False,
    mask: Mask = None,
    secret: Secret = None,
    headless: Annotated[
        bool, typer.Option("--headless", help="Show no window: something else acts.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Record what you do in a browser, until you close it, press Enter here, or Ctrl-C.

    Passwords are not recorded: {{secret:NAME}} stands for them, and a replay is given them by
    --secret NAME.
    """
    from agentserve.cli.record_person import PersonOptions

    kept_out = redacted(mask, secret)
    options = PersonOptions(
        url=url,
        out=recordings,
        viewport=parse_size(viewport),
        task=task,
        allow=tuple(allow or ()),
        settings=page_settings(fixed_time, random_seed, animations, har),
        masks=kept_out.masks,
        secrets=kept_out.secrets,
    )
    _tell(run_until_signal(_record(options, cdp, headless)), as_json)


async def _record(options: PersonOptions, cdp: str | None, headless: bool) -> PersonRecorded:
    from agentserve.cli.record_person import record_person

    async with _browser(cdp, headless) as browser, _enter() as stop:
        return await record_person(
            browser,
            options,
            stop=stop,
            on_start=lambda session, computer: err.print(
                "recording; close the browser or press Enter here when you are done"
            ),
            on_step=_say,
        )


@asynccontextmanager
async def _browser(cdp: str | None, headless: bool) -> AsyncIterator[Browser]:
    from agentserve.browser.launch import connect_browser, launch_browser

    if cdp is None:
        async with launch_browser(headed=not headless) as browser:
            yield browser
        return
    err.print(
        "this browser was started with other flags than a replay's: fonts and scroll bars may "
        "look otherwise",
        style="dim",
    )
    async with connect_browser(cdp) as browser:
        yield browser


@asynccontextmanager
async def _enter() -> AsyncIterator[asyncio.Event]:
    """Set when a person presses Enter in the terminal, if there is one."""
    entered, loop = asyncio.Event(), asyncio.get_running_loop()
    if not sys.stdin.isatty():
        yield entered
        return
    loop.add_reader(sys.stdin, entered.set)
    try:
        yield entered
    finally:
        loop.remove_reader(sys.stdin)


def _say(line: StepLine) -> None:
    from agentserve.core.actions.recorded import describe
    from agentserve.replay.telling import CLOSING

    act = describe(line.performed) if line.performed is not None else CLOSING
    what = line.target.text or line.target.tag if line.target else ""
    empty = line.url == "about:blank"
    seen = "" if line.screenshot or empty else "  (faster than the page: no screenshot)"
    err.print(plain(f"{line.index:3} {act}  {what}{seen}"), markup=False)


def _tell(recorded: PersonRecorded, as_json: bool) -> None:
    if as_json:
        result = {
            "recording": str(recorded.folder),
            "steps": recorded.steps,
            "secrets": list(recorded.secrets),
            "refused": recorded.refused,
            "warnings": list(recorded.warnings),
        }
        out.print_json(json.dumps(result))
        return
    err.print(f"recorded in {recorded.folder}")
    if recorded.refused:
        err.print(f"[yellow]{recorded.refused} messages from pages were refused[/]")
    for warning in recorded.warnings:
        err.print(warning, style="yellow", markup=False, highlight=False)
    given = [word for name in recorded.secrets for word in ("--secret", name)]
    shown = f"next: {command('replay', recorded.folder, *given)}"
    err.print(shown, style="dim", markup=False)
