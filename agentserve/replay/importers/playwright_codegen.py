"""What Playwright's codegen writes with ``--target jsonl``: a line of options, an action a line.

Playwright does not document the format; this is what version 1.65 writes. Elements are named by
selectors, points only on canvases: actions become acts on elements, and nothing has a screenshot.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentserve.core.actions import Navigate
from agentserve.core.actions.recorded import (
    CloseTab,
    Fill,
    HoverElement,
    OpenTab,
    SwitchTab,
    Unsupported,
    WaitFor,
)
from agentserve.core.elements import ElementTarget
from agentserve.core.errors import RecordingError
from agentserve.core.screens import Size
from agentserve.replay.account import Account
from agentserve.replay.addresses import whole_page
from agentserve.replay.bundle.format import StepLine
from agentserve.replay.importers.fields import Fields
from agentserve.replay.importers.keys import chord
from agentserve.replay.importers.losses import (
    MAX_WORDS,
    tell_options,
    tell_unsupported,
    without_credentials,
)
from agentserve.replay.importers.playwright_targets import Tabs, click, element
from agentserve.replay.importers.sources import read_lines, read_source, words
from agentserve.replay.importers.taken import MAX_STEPS, Taken

FORMAT = "playwright-codegen"

_DEFAULT_VIEWPORT = Size(width=1280, height=720)
"""Codegen's own, where no option says another."""
_MODIFIERS = ((1, "Alt"), (2, "Control"), (4, "Meta"), (8, "Shift"))
_BLANK = ("", "about:blank", "chrome://newtab/")


def take(path: Path) -> Taken:
    """Read a file of codegen's actions. Raises RecordingError."""
    return take_lines(read_source(path), path.name)


def take_lines(data: bytes, name: str) -> Taken:
    """The recording of codegen's lines; ``name`` names them in errors. Raises RecordingError."""
    lines = read_lines(data, name, MAX_STEPS + 2)
    entry, header = next(lines, (f"{name} line 1", {}))
    options = Fields(header, entry)
    options.text("browserName")
    actions = _Actions()
    for where, line in lines:
        actions.take(Fields(line, where))
    actions.end()
    context = options.inner("contextOptions") if "contextOptions" in header else Fields({}, entry)
    viewport = _DEFAULT_VIEWPORT
    if isinstance(context.values.get("viewport"), dict):
        viewport = context.inner("viewport").size()
    tell_options(context, actions.account)
    scale = context.number("deviceScaleFactor", 1.0)
    if not 0 < scale <= 8:
        raise context.wrong("deviceScaleFactor", "a number above 0, at most 8")
    return Taken(
        format=FORMAT,
        viewport=viewport,
        steps=tuple(actions.steps),
        url=actions.first_url,
        scale=scale,
        data=actions.account.data(without_credentials(header)),
        lost=actions.account.sentences(),
    )


class _Actions:
    """Takes codegen's actions, one after the other."""

    def __init__(self) -> None:
        self.steps: list[StepLine] = []
        self.account = Account()
        self.first_url = ""
        self._tabs = Tabs([])
        self._urls: dict[str, str] = {}
        self._told = ""
        """Where the last action brought its page."""

    def end(self) -> None:
        """To be called after the last line: no action shows where that one led."""
        if self._told:
            self.steps.append(StepLine(index=len(self.steps), url=self._told))

    def take(self, line: Fields) -> None:
        name, page = line.text("name"), line.text("pageGuid", "")
        if name == "openPage":
            self._open(page, line)
            return
        read = _READERS.get(name)
        if read is None:
            raise RecordingError(
                f"{line.entry}: {words(name)} is no action of codegen",
                hint=f"known: {', '.join(sorted([*_READERS, 'openPage']))}",
            )
        switch = self._tabs.goes_to(page)
        if switch is not None:
            self._add(page, switch, None, None)
        origin = self.account.origin(line.values, len(self.steps))
        actions, target = read(self, line)
        for number, action in enumerate(actions):
            self._add(page, action, target, origin if number == 0 else None)
        if name == "closePage":
            self._tabs.closes()
        self._signals(page, line)

    def _open(self, page: str, line: Fields) -> None:
        url = line.text("url", "")
        blank = url in _BLANK
        if self._tabs.opens(page):
            action = line.build(OpenTab, url="about:blank" if blank else url)
        elif blank:
            return  # the tab that a recording begins with
        else:
            action = line.build(Navigate, url=url)
        self._add(page, action, None, self.account.origin(line.values, len(self.steps)))

    def _add(self, page: str, action: Any, target: ElementTarget | None, origin: Any) -> None:
        tell_unsupported(action, self.account, len(self.steps))
        self.steps.append(
            StepLine(
                index=len(self.steps),
                # which tab is in front before one is brought there is not told
                url="" if isinstance(action, SwitchTab) else self._urls.get(page, ""),
                performed=action,
                target=target,
                origin=origin,
            )
        )
        if isinstance(action, Navigate | OpenTab):
            self._urls[page] = whole_page(action.url)
            self.first_url = self.first_url or (action.url if action.url not in _BLANK else "")

    def _signals(self, page: str, line: Fields) -> None:
        """What the action brought about."""
        self._told = ""
        for value in line.list("signals", []):
            signal = Fields(value, f"{line.entry}: signals")
            match signal.text("name"):
                case "navigation":
                    url, step = signal.text("url", ""), len(self.steps)
                    cut = self.account.cut(url, MAX_WORDS, "the page's address", step)
                    self._urls[page] = self._told = cut
                case "popup":
                    self._tabs.opens(signal.text("popupPageGuid", signal.text("popupAlias", "")))
                case "dialog":
                    self.account.lose("how its dialog was answered", len(self.steps) - 1)
                case "download":
                    self.account.lose("its download", len(self.steps) - 1)
                case name:
                    self.account.lose(f"its signal {words(name)}", len(self.steps) - 1)

    def target(self, line: Fields, **known: Any) -> ElementTarget | None:
        return element(line.text("selector"), self.account, len(self.steps), **known)


Read = tuple[list[Any], ElementTarget | None]


def _navigate(actions: _Actions, line: Fields) -> Read:
    return [line.build(Navigate, url=line.text("url"))], None


def _close(actions: _Actions, line: Fields) -> Read:
    return [CloseTab()], None


def _position(line: Fields) -> dict[str, Any]:
    if not isinstance(line.values.get("position"), dict):
        return {}
    position = line.inner("position")
    return {"offset": (position.number("x"), position.number("y"))}


def _click(actions: _Actions, line: Fields) -> Read:
    clicks = line.integer("clickCount", 1, 1000, 1)
    action = click(line.text("button", "left"), clicks, _modifiers(line), None)
    return [action], actions.target(line, **_position(line))


def _hover(actions: _Actions, line: Fields) -> Read:
    return [HoverElement()], actions.target(line, **_position(line))


def _fill(actions: _Actions, line: Fields) -> Read:
    return [line.build(Fill, value=line.text("text"))], actions.target(line)


def _check(actions: _Actions, line: Fields) -> Read:
    return [Fill(value="true")], actions.target(line)


def _uncheck(actions: _Actions, line: Fields) -> Read:
    return [Fill(value="false")], actions.target(line)


def _press(actions: _Actions, line: Fields) -> Read:
    try:
        keys = chord("+".join([*_modifiers(line), line.text("key")]))
    except ValueError as error:
        raise line.wrong("key", "the name of a key") from error
    return keys, actions.target(line)


def _select(actions: _Actions, line: Fields) -> Read:
    options = line.list("options")
    if len(options) != 1 or not isinstance(options[0], str):
        return [Unsupported(what="selecting none or several options")], actions.target(line)
    return [line.build(Fill, value=options[0])], actions.target(line)


def _files(actions: _Actions, line: Fields) -> Read:
    return [Unsupported(what="choosing files")], actions.target(line)


def _visible(actions: _Actions, line: Fields) -> Read:
    return [WaitFor()], actions.target(line)


def _text(actions: _Actions, line: Fields) -> Read:
    if not line.true("substring", True):
        actions.account.lose(
            "the text is looked for in what the element shows, more may stand there",
            len(actions.steps),
        )
    return [line.build(WaitFor, text=line.text("text"))], actions.target(line)


def _value(actions: _Actions, line: Fields) -> Read:
    return [line.build(WaitFor, value=line.text("value"))], actions.target(line)


def _checked(actions: _Actions, line: Fields) -> Read:
    value = "true" if line.true("checked") else "false"
    return [WaitFor(value=value)], actions.target(line)


def _snapshot(actions: _Actions, line: Fields) -> Read:
    return [Unsupported(what="comparing an aria snapshot")], actions.target(line)


def _modifiers(line: Fields) -> list[str]:
    bits = line.integer("modifiers", 0, 15, 0)
    return [name for bit, name in _MODIFIERS if bits & bit]


_READERS: dict[str, Callable[[_Actions, Fields], Read]] = {
    "navigate": _navigate,
    "closePage": _close,
    "click": _click,
    "hover": _hover,
    "fill": _fill,
    "press": _press,
    "check": _check,
    "uncheck": _uncheck,
    "select": _select,
    "setInputFiles": _files,
    "assertVisible": _visible,
    "assertText": _text,
    "assertValue": _value,
    "assertChecked": _checked,
    "assertSnapshot": _snapshot,
}
