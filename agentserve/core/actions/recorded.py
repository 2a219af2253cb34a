"""What recordings hold beside the actions of agents: acts of people, and of the tools that record
them. An agent cannot do them; a replay in a browser can.

Those that name no point are done to the step's target, at its offset: tools that record elements
know no points. A Key or Type whose step has a target is for the element that it names: a replay
gives it the focus where it has not got it already."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, TypeAdapter

from agentserve.core.actions.compact import format_action
from agentserve.core.actions.union import KINDS, Action
from agentserve.core.model import Wire
from agentserve.core.screens import Size

ScrollOffset = Annotated[float, Field(ge=-10_000_000, le=10_000_000)]
Modifier = Literal["Alt", "Control", "Meta", "Shift"]


class ClickElement(Wire):
    """Clicks the step's target, once or several times in a row."""

    kind: Literal["click_element"] = "click_element"
    button: Literal["left", "right", "middle"] = "left"
    clicks: Annotated[int, Field(ge=1, le=3)] = 1
    modifiers: Annotated[tuple[Modifier, ...], Field(max_length=4)] = ()
    """Keys that are held meanwhile."""


class HoverElement(Wire):
    """Moves the mouse over the step's target."""

    kind: Literal["hover_element"] = "hover_element"


class ScrollTo(Wire):
    """Scrolls the step's target, or the page where it has none, to an offset in CSS px."""

    kind: Literal["scroll_to"] = "scroll_to"
    x: ScrollOffset = 0.0
    y: ScrollOffset = 0.0


class Fill(Wire):
    """Sets the value of the step's target, whatever was there: of a text field, of a select by its
    option's value, of a checkbox or radio button by ``true`` or ``false``."""

    kind: Literal["fill"] = "fill"
    value: Annotated[str, StringConstraints(max_length=100_000)]


class KeyDown(Wire):
    """Holds a key down, in Playwright's names."""

    kind: Literal["key_down"] = "key_down"
    key: Annotated[str, StringConstraints(min_length=1, max_length=50)]


class KeyUp(Wire):
    kind: Literal["key_up"] = "key_up"
    key: Annotated[str, StringConstraints(min_length=1, max_length=50)]


class Resize(Wire):
    """Gives the viewport another size, in CSS px."""

    kind: Literal["resize"] = "resize"
    size: Size


class WaitFor(Wire):
    """Waits until the step's target is there, or until a JavaScript expression is true.

    What is said of the target holds together; a replay fails when the time is over.
    """

    kind: Literal["wait_for"] = "wait_for"
    expression: Annotated[str, StringConstraints(max_length=100_000)] | None = None
    """None: the target."""
    visible: bool = True
    """Of the target: that it is seen, or is not."""
    text: Annotated[str, StringConstraints(max_length=20_000)] | None = None
    """Of the target: what it shows, or a part of it, runs of white space counting as one space."""
    value: Annotated[str, StringConstraints(max_length=20_000)] | None = None
    """Of the target: what Fill would have set."""
    timeout_s: Annotated[float, Field(gt=0, le=600)] = 10.0


class Forward(Wire):
    """Goes forward in the tab's history."""

    kind: Literal["forward"] = "forward"


class Reload(Wire):
    kind: Literal["reload"] = "reload"


class OpenTab(Wire):
    kind: Literal["open_tab"] = "open_tab"
    url: Annotated[str, StringConstraints(max_length=2000)] = "about:blank"


class SwitchTab(Wire):
    """Brings a tab to the front."""

    kind: Literal["switch_tab"] = "switch_tab"
    index: Annotated[int, Field(ge=0, le=1000)]
    """From 0, in the order in which they were opened; those that were closed count as well."""


class CloseTab(Wire):
    """Closes the tab in front."""

    kind: Literal["close_tab"] = "close_tab"


class Unsupported(Wire):
    """A step of another tool that has no equal here. A replay stops at it unless told to go by."""

    kind: Literal["unsupported"] = "unsupported"
    what: Annotated[str, StringConstraints(max_length=2000)]


RecordedAction = Annotated[
    Action | ClickElement | HoverElement | ScrollTo | Fill | KeyDown | KeyUp | Resize | WaitFor
    | Forward | Reload | OpenTab | SwitchTab | CloseTab | Unsupported,
    Field(discriminator="kind"),
]  # fmt: skip
RECORDED_ACTION_ADAPTER: TypeAdapter[Any] = TypeAdapter(RecordedAction)


def describe(action: Any) -> str:
    """One line for people: an agent's action in the compact dialect, the others alike."""
    if action.kind in KINDS:
        return format_action(action)
    fields = action.model_dump(exclude={"kind"}, exclude_defaults=True)
    return " ".join([action.kind, *(json.dumps(v, ensure_ascii=False) for v in fields.values())])
