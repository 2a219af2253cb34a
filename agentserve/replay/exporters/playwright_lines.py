"""Recorded actions as lines of a Playwright script, one function a kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agentserve.core.actions import (
    Back,
    CallUser,
    Click,
    Done,
    DoubleClick,
    Drag,
    Hover,
    Key,
    Navigate,
    Scroll,
    Type,
    Wait,
)
from agentserve.core.actions.recorded import (
    ClickElement,
    CloseTab,
    Fill,
    Forward,
    HoverElement,
    KeyDown,
    KeyUp,
    OpenTab,
    Reload,
    Resize,
    ScrollTo,
    SwitchTab,
    Unsupported,
    WaitFor,
)
from agentserve.replay.account import Account
from agentserve.replay.addresses import whole_address
from agentserve.replay.bundle.format import StepLine
from agentserve.replay.exporters.places import Focus, tell_failure
from agentserve.replay.exporters.playwright_locators import locator, position
from agentserve.replay.exporters.python_text import Address, call, literal, said

Lines = list[str]

_AIMED = ("click", "click_element", "double_click", "drag", "hover", "hover_element")


@dataclass
class Writing:
    """A script that is being written."""

    account: Account
    uses: set[str] = field(default_factory=set)
    """Helpers of the script that its lines call."""
    focus: Focus = field(default_factory=Focus)
    """Before the step that is being written."""

    def lines(self, step: StepLine) -> Lines:
        """What does the step's action; a comment where nothing can."""
        if step.performed is None:
            return self.left_out(step, "nothing was done")
        lines = _WRITERS[step.performed.kind](self, step, step.performed)
        if not lines[0].startswith("#"):
            tell_failure(step, self.account)
            if step.performed.kind in _AIMED and isinstance(step.pointer, tuple):
                # what it is aimed at may be there only while the pointer is on something else
                lines = [call("page.mouse.move", *step.pointer), *lines]
        self.focus.after(step)
        return lines

    def left_out(self, step: StepLine, why: str) -> Lines:
        self.account.lose(why, step.index)
        return [f"# step {step.index} is left out: {literal(why)}"]


def _click(writing: Writing, step: StepLine, action: Any) -> Lines:
    """Of Click, DoubleClick and ClickElement."""
    clicks, held = 1, ()
    if isinstance(action, ClickElement):
        clicks, held = action.clicks, action.modifiers
    elif isinstance(action, DoubleClick):
        clicks = 2
    button = getattr(action, "button", "left")
    named: dict[str, Any] = {
        "button": None if button == "left" else button,
        "click_count": clicks if clicks > 2 else None,
    }
    method = "dblclick" if clicks == 2 else "click"
    element = locator(step.target)
    if element is not None:
        where = position(step.target)
        return [call(f"{element}.{method}", modifiers=list(held) or None, position=where, **named)]
    at = _point(step, action)
    if at is None:
        return writing.left_out(step, f"{action.kind}: nothing tells where")
    line = call(f"page.mouse.{method}", *at, **named)
    downs = [call("page.keyboard.down", name) for name in held]
    return [*downs, line, *(call("page.keyboard.up", name) for name in reversed(held))]


def _hover(writing: Writing, step: StepLine, action: Any) -> Lines:
    element = locator(step.target)
    if element is not None:
        return [call(f"{element}.hover", position=position(step.target))]
    at = _point(step, action)
    if at is None:
        return writing.left_out(step, f"{action.kind}: nothing tells where")
    return [call("page.mouse.move", *at)]


def _point(step: StepLine, action: Any) -> tuple[float, float] | None:
    """In the viewport, in CSS px."""
    if hasattr(action, "x"):
        return action.x, action.y
    target = step.target
    if target is None or target.box is None:
        return None
    x, y = target.offset or (target.box.width / 2, target.box.height / 2)
    return round(target.box.x + x, 1), round(target.box.y + y, 1)


def _drag(writing: Writing, step: StepLine, action: Drag) -> Lines:
    source, end = locator(step.target), locator(step.to_target)
    if source is None or end is None:
        return [
            call("page.mouse.move", action.x, action.y),
            "page.mouse.down()",
            call("page.mouse.move", action.to_x, action.to_y, steps=10),
            "page.mouse.up()",
        ]
    named = {"source_position": position(step.target), "target_position": position(step.to_target)}
    given = ", ".join(f"{name}={literal(one)}" for name, one in named.items() if one is not None)
    return [f"{source}.drag_to({end}{', ' if given else ''}{given})"]


def _keyed(writing: Writing, step: StepLine) -> str | None:
    """The locator of what a step's keys are for; that there is none, though they are for an element
    that is not known to have the focus, is told."""
    element = locator(step.target)
    if element is None and step.target is not None and not writing.focus.is_on(step.target):
        sentence = "no selector finds its element: its keys go to what has the focus"
        writing.account.lose(sentence, step.index)
    return element


def _type(writing: Writing, step: StepLine, action: Type) -> Lines:
    element = _keyed(writing, step)
    return [call(f"{element}.press_sequentially" if element else "page.keyboard.type", action.text)]


def _key(writing: Writing, step: StepLine, action: Key) -> Lines:
    element = _keyed(writing, step)
    return [call(f"{element}.press" if element else "page.keyboard.press", action.keys)]


def _key_down(writing: Writing, step: StepLine, action: KeyDown) -> Lines:
    element = _keyed(writing, step)
    focused = step.target is not None and writing.focus.is_on(step.target)
    down = call("page.keyboard.down", action.key)
    return [f"{element}.focus()", down] if element and not focused else [down]


def _key_up(writing: Writing, step: StepLine, action: KeyUp) -> Lines:
    return [call("page.keyboard.up", action.key)]


def _scroll(writing: Writing, step: StepLine, action: Scroll) -> Lines:
    move = call("page.mouse.move", action.x, action.y)
    return [move, call("page.mouse.wheel", action.dx, action.dy)]


def _scroll_to(writing: Writing, step: StepLine, action: ScrollTo) -> Lines:
    at = [action.x, action.y]
    if step.target is None:
        return [call("page.evaluate", "at => window.scrollTo(...at)", at)]
    element = locator(step.target)
    if element is None:
        return writing.left_out(step, "scroll_to: no selector finds its element")
    return [call(f"{element}.evaluate", "(element, at) => element.scrollTo(...at)", at)]


def _fill(writing: Writing, step: StepLine, action: Fill) -> Lines:
    element = locator(step.target)
    if element is None:
        return writing.left_out(step, "fill: no selector finds its element")
    writing.uses |= {"kind", "fill"}
    return [f"fill({element}, {said(action.value)})"]


def _wait_for(writing: Writing, step: StepLine, action: WaitFor) -> Lines:
    timeout = round(action.timeout_s * 1000)
    if action.expression is not None:
        return [call("page.wait_for_function", action.expression, timeout=timeout)]
    element = locator(step.target)
    if element is None:
        return writing.left_out(step, "wait_for: no selector finds its element")
    writing.uses.add("expect")
    visible = "to_be_visible" if action.visible else "to_be_hidden"
    lines = [call(f"expect({element}).{visible}", timeout=timeout)]
    if action.text is not None:
        lines = [call(f"expect({element}).to_contain_text", action.text, timeout=timeout)]
    if action.value is not None:
        writing.uses |= {"kind", "expect_value"}
        lines.append(f"expect_value({element}, {said(action.value)}, {timeout})")
    return lines


def _navigate(writing: Writing, step: StepLine, action: Navigate) -> Lines:
    return [call("page.goto", Address(whole_address(step.url, action.url)))]


def _resize(writing: Writing, step: StepLine, action: Resize) -> Lines:
    return [call("page.set_viewport_size", action.size.model_dump())]


def _wait(writing: Writing, step: StepLine, action: Wait) -> Lines:
    return [call("page.wait_for_timeout", action.seconds * 1000)]


def _open_tab(writing: Writing, step: StepLine, action: OpenTab) -> Lines:
    lines = ["page = context.new_page()"]
    return (
        lines if action.url == "about:blank" else [*lines, call("page.goto", Address(action.url))]
    )


def _switch_tab(writing: Writing, step: StepLine, action: SwitchTab) -> Lines:
    writing.uses.add("tab")
    return [f"page = tab(page, tabs, {action.index})"]


def _close_tab(writing: Writing, step: StepLine, action: CloseTab) -> Lines:
    return ["page.close()", "page = context.pages[-1] if context.pages else page"]


def _said(writing: Writing, step: StepLine, action: Any) -> Lines:
    """Of Done and CallUser, which do nothing to a page."""
    return [f"# {action.kind}: {literal(action.text)}"]


def _unsupported(writing: Writing, step: StepLine, action: Unsupported) -> Lines:
    return writing.left_out(step, action.what)


def _always(line: str) -> Callable[[Writing, StepLine, Any], Lines]:
    return lambda writing, step, action: [line]


_WRITERS: dict[str, Callable[[Writing, StepLine, Any], Lines]] = {
    action.model_fields["kind"].default: write
    for action, write in (
        (Click, _click),
        (DoubleClick, _click),
        (ClickElement, _click),
        (Hover, _hover),
        (HoverElement, _hover),
        (Drag, _drag),
        (Type, _type),
        (Key, _key),
        (KeyDown, _key_down),
        (KeyUp, _key_up),
        (Scroll, _scroll),
        (ScrollTo, _scroll_to),
        (Fill, _fill),
        (Wait, _wait),
        (WaitFor, _wait_for),
        (Navigate, _navigate),
        (Back, _always("page.go_back()")),
        (Forward, _always("page.go_forward()")),
        (Reload, _always("page.reload()")),
        (Resize, _resize),
        (OpenTab, _open_tab),
        (SwitchTab, _switch_tab),
        (CloseTab, _close_tab),
        (Done, _said),
        (CallUser, _said),
        (Unsupported, _unsupported),
    )
}
