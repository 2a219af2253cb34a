"""One action of browser-use as what was done to the page."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote_plus

from agentserve.core.actions.dialects import checks
from agentserve.core.actions.dialects.keys import press, split_chord
from agentserve.core.actions.recorded import (
    ClickElement,
    CloseTab,
    Fill,
    OpenTab,
    RecordedAction,
    SwitchTab,
    Unsupported,
)
from agentserve.core.actions.union import MODIFIERS, Back, Click, Done, Navigate
from agentserve.core.elements import ElementTarget
from agentserve.core.errors import BadAction
from agentserve.core.screens import Size
from agentserve.replay.account import Account, shortened
from agentserve.replay.importers.sources import text_in

Values = dict[str, Any]
Acts = tuple[RecordedAction, ...]

_SEARCH = {
    "duckduckgo": "https://duckduckgo.com/?q={}",
    "google": "https://www.google.com/search?q={}&udm=14",
    "bing": "https://www.bing.com/search?q={}",
}
_MAX_URL = 2000
_SELECTED = " (value: "
"""Stands in the result of a selection, before the option's value."""
_DEFAULT_WAIT_S = 3
_KEY_NAMES = {
    "ctrl": "Control", "control": "Control", "alt": "Alt", "option": "Alt", "meta": "Meta",
    "cmd": "Meta", "command": "Meta", "shift": "Shift", "enter": "Enter", "return": "Enter",
    "tab": "Tab", "delete": "Delete", "backspace": "Backspace", "escape": "Escape",
    "esc": "Escape", "space": "Space", "up": "ArrowUp", "down": "ArrowDown", "left": "ArrowLeft",
    "right": "ArrowRight", "pageup": "PageUp", "pagedown": "PageDown", "home": "Home", "end": "End",
}  # fmt: skip
_KEYS = {*_KEY_NAMES.values(), *(f"F{n}" for n in range(1, 13))}
"""Of these it presses the key; any other word it types."""
_READING = {
    "extract", "extract_structured_data", "extract_content", "extract_page_content",
    "search_page", "find_elements", "screenshot", "dropdown_options", "get_dropdown_options",
    "write_file", "replace_file", "replace_file_str", "append_file", "read_file", "save_as_pdf",
    "get_ax_tree",
}  # fmt: skip
"""What does nothing to the page."""


@dataclass(frozen=True)
class Told:
    """What the history tells beside an action."""

    viewport: Size
    target: ElementTarget | None
    result: Values
    """An ActionResult; its metadata says where the mouse really was."""
    tabs: tuple[str, ...]
    """Their ids, in the order in which they were first seen."""
    step: int
    account: Account

    @property
    def found(self) -> bool:
        """Whether there is something to find its element by."""
        return self.target is not None and bool(self.target.selectors)

    def mouse(self) -> tuple[float, float] | tuple[None, None]:
        """Where the mouse was, in CSS px, when the result tells."""
        metadata = self.result.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        for kind in ("click", "input"):
            x, y = metadata.get(f"{kind}_x"), metadata.get(f"{kind}_y")
            if x is not None and y is not None:
                return checks.number(x, f"{kind}_x"), checks.number(y, f"{kind}_y")
        return None, None

    def point(self) -> tuple[int, int]:
        """Where it was done, in CSS px. Raises BadAction when nothing tells, and for a point that
        is not on the screen."""
        x, y = self.mouse()
        box = self.target.box if self.target else None
        if x is None and box is not None:
            x, y = box.x + box.width / 2, box.y + box.height / 2
        if x is None or y is None:
            raise BadAction("where it was done is not told")
        if not (0 <= x < self.viewport.width and 0 <= y < self.viewport.height):
            raise BadAction(f"the point ({x:g}, {y:g}) is outside the screen")
        return int(x), int(y)


def read_action(action: Values, told: Told) -> tuple[Acts, ElementTarget | None]:
    """What an action did, and the element that it was aimed at, with where the mouse was on it. Its
    box is left out where that shows that it is of the page and not of the viewport.

    Nothing when it only read. What has no equal here is Unsupported; both are losses.
    """
    name = next(iter(action), "")
    values = action.get(name)
    values = values if isinstance(values, dict) else {}
    if name in _READING:
        told.account.lose(f"{name} only reads: nothing is done in its place", told.step)
        return (), None
    if name not in _READERS:
        told.account.lose(f"there is no action for {shortened(name, 100)!r}", told.step)
        return _unsupported(name, values), told.target
    try:
        return _READERS[name](values, told), _placed(told)
    except BadAction as error:
        told.account.lose(f"{name}: {error.message}", told.step)
        return _unsupported(name, values), told.target


def _placed(told: Told) -> ElementTarget | None:
    x, y = told.mouse()
    target, box = told.target, told.target and told.target.box
    if target is None or box is None or x is None or y is None:
        return target
    if not box.holds(x, y):
        return target.model_copy(update={"box": None})
    return target.model_copy(update={"offset": (x - box.x, y - box.y)})


def _unsupported(name: str, values: Values) -> Acts:
    what = f"{name or 'an action without a name'} {json.dumps(values)}"
    return (Unsupported(what=shortened(what, 2000)),)


def _click(values: Values, told: Told) -> Acts:
    if told.found:
        return (ClickElement(),)
    given = {f"click_{axis}": values.get(f"coordinate_{axis}") for axis in "xy"}
    if told.target is None and None in told.mouse() and None not in given.values():
        told.account.lose("its point is of the picture the model saw, maybe resized", told.step)
        told = replace(told, result={"metadata": given})
    x, y = told.point()
    return (Click(x=x, y=y),)


def _input(values: Values, told: Told) -> Acts:
    text = checks.text_of(values.get("text"), "text")
    if not told.found:
        raise BadAction("which element it was is not told")
    return checks.typed(text) if values.get("clear", True) is False else (Fill(value=text),)


def _select(values: Values, told: Told) -> Acts:
    if not told.found:
        raise BadAction("which element it was is not told")
    text = checks.text_of(values.get("text"), "text")
    _, found, selected = text_in(told.result, "extracted_content").rpartition(_SELECTED)
    if found and selected.endswith(")"):
        return (Fill(value=selected.removesuffix(")")),)
    told.account.lose("the text of its option is taken as the option's value", told.step)
    return (Fill(value=text),)


def _scroll(values: Values, told: Told) -> Acts:
    """By pages; older versions by px, and one way a name."""
    pages = values.get("pages", values.get("num_pages", 1))
    distance = checks.number(pages, "pages") * told.viewport.height
    if values.get("amount") is not None:
        distance = checks.number(values["amount"], "amount")
    at = (told.viewport.width // 2, told.viewport.height // 2)
    if told.target is not None and told.target.box is not None:
        at = told.point()
    return checks.scroll(at, 0, distance if values.get("down", True) else -distance)


def _send_keys(values: Values, told: Told) -> Acts:
    """A key, a chord, or else text that is typed: as browser-use itself tells them apart."""
    text = checks.text_of(values.get("keys"), "keys")
    *before, last = split_chord(text)
    held = [_key(name) for name in before]
    if held and last.strip() and all(name in MODIFIERS for name in held):
        key = _key(last)
        if len(key) > 1 and key not in _KEYS:
            raise BadAction(f"no key is called {shortened(key, 40)!r}")
        return press([*held, key])
    return press([_key(text)]) if _key(text) in _KEYS else checks.typed(text)


def _key(name: str) -> str:
    """Playwright's name of a key in browser-use's; what is none stays what it is."""
    return _KEY_NAMES.get(name.strip().lower(), name)


def _navigate(values: Values, told: Told) -> Acts:
    url = checks.text_of(values.get("url"), "url")
    if len(url) > _MAX_URL:
        raise BadAction(f"an address of {len(url)} characters")
    return (OpenTab(url=url),) if values.get("new_tab") is True else (Navigate(url=url),)


def _open_tab(values: Values, told: Told) -> Acts:
    return _navigate({**values, "new_tab": True}, told)


def _tab(values: Values, told: Told) -> SwitchTab:
    """Tabs are named by the end of their id; by older versions, by their number."""
    tab = values.get("tab_id", values.get("page_id"))
    if tab in told.tabs:
        return SwitchTab(index=told.tabs.index(tab))
    number = checks.number(tab, "the tab")
    if number not in range(len(told.tabs)):
        raise BadAction(f"the tab {number:g} is not one of {len(told.tabs)}")
    return SwitchTab(index=int(number))


def _switch_tab(values: Values, told: Told) -> Acts:
    return (_tab(values, told),)


def _close_tab(values: Values, told: Told) -> Acts:
    return (_tab(values, told), CloseTab())


def _search(values: Values, told: Told) -> Acts:
    engine = text_in(values, "engine", "search_engine").lower() or "duckduckgo"
    return _search_with(engine, values, told)


def _search_with(engine: str, values: Values, told: Told) -> Acts:
    if engine not in _SEARCH:
        raise BadAction(f"no search engine {shortened(engine, 40)!r}")
    query = quote_plus(checks.text_of(values.get("query"), "query"))
    return _navigate({"url": _SEARCH[engine].format(query)}, told)


def _wait(values: Values, told: Told) -> Acts:
    seconds = checks.number(values.get("seconds", _DEFAULT_WAIT_S), "seconds")
    if seconds < 1 or seconds != int(seconds):
        told.account.lose(f"a pause of {seconds:g} s became one of whole seconds", told.step)
    return checks.wait(seconds)


def _done(values: Values, told: Told) -> Acts:
    status = "failure" if values.get("success") is False else "success"
    text = text_in(values, "text") or (json.dumps(values["data"]) if "data" in values else "")
    return (Done(status=status, text=told.account.cut(text, 2000, "its text", told.step)),)


_READERS: dict[str, Callable[[Values, Told], Acts]] = {
    "click": _click,
    "close": _close_tab,
    "close_tab": _close_tab,
    "click_element": _click,
    "click_element_by_index": _click,
    "done": _done,
    "go_back": lambda values, told: (Back(),),
    "go_to_url": _navigate,
    "input": _input,
    "input_text": _input,
    "navigate": _navigate,
    "open_tab": _open_tab,
    "scroll": _scroll,
    "scroll_down": _scroll,
    "scroll_up": lambda values, told: _scroll({**values, "down": False}, told),
    "search": _search,
    "search_google": lambda values, told: _search_with("google", values, told),
    "select_dropdown": _select,
    "select_dropdown_option": _select,
    "send_keys": _send_keys,
    "switch": _switch_tab,
    "switch_tab": _switch_tab,
    "wait": _wait,
}
