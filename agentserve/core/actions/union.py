"""The closed union of actions. An action carries no unit of its own: the field that holds it says
whether its points are CSS px or model px."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, TypeAdapter

from agentserve.core.errors import BadAction
from agentserve.core.model import Wire
from agentserve.core.screens import MAX_SIDE, ScreenSpace, Size

Coordinate = Annotated[int, Field(ge=0, lt=MAX_SIDE)]
Text = Annotated[str, StringConstraints(max_length=2000)]
NAMED_KEYS = (
    "Enter", "Tab", "Escape", "Backspace", "Delete", "Space", "Home", "End", "PageUp", "PageDown",
    "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight",
)  # fmt: skip
MODIFIERS = ("Control", "Shift", "Alt", "Meta")
KEY_PATTERN = rf"(?:(?:{'|'.join(MODIFIERS)})\+){{0,3}}(?:{'|'.join(NAMED_KEYS)}|F[1-9]|[a-z0-9])"


class Click(Wire):
    kind: Literal["click"] = "click"
    x: Coordinate
    y: Coordinate
    button: Literal["left", "right", "middle"] = "left"


class DoubleClick(Wire):
    kind: Literal["double_click"] = "double_click"
    x: Coordinate
    y: Coordinate


class Type(Wire):
    """Types text where the focus is; a newline presses Enter."""

    kind: Literal["type"] = "type"
    text: Text


class Key(Wire):
    """Presses one key or chord, in Playwright's names: ``Enter``, ``Control+a``."""

    kind: Literal["key"] = "key"
    keys: Annotated[str, StringConstraints(pattern=rf"^{KEY_PATTERN}$")]


class Scroll(Wire):
    """Turns the wheel at a point. ``dx``/``dy`` are px; positive is right/down."""

    kind: Literal["scroll"] = "scroll"
    x: Coordinate
    y: Coordinate
    dx: Annotated[int, Field(ge=-MAX_SIDE, le=MAX_SIDE)] = 0
    dy: Annotated[int, Field(ge=-MAX_SIDE, le=MAX_SIDE)] = 0


class Drag(Wire):
    kind: Literal["drag"] = "drag"
    x: Coordinate
    y: Coordinate
    to_x: Coordinate
    to_y: Coordinate


class Hover(Wire):
    kind: Literal["hover"] = "hover"
    x: Coordinate
    y: Coordinate


class Wait(Wire):
    kind: Literal["wait"] = "wait"
    seconds: Annotated[int, Field(ge=1, le=30)] = 1


class Navigate(Wire):
    kind: Literal["navigate"] = "navigate"
    url: Annotated[str, StringConstraints(max_length=2000)]


class Back(Wire):
    kind: Literal["back"] = "back"


class Done(Wire):
    """The agent says that it has finished."""

    kind: Literal["done"] = "done"
    status: Literal["success", "failure"] = "success"
    text: Text = ""


class CallUser(Wire):
    """The agent asks a person to take over."""

    kind: Literal["call_user"] = "call_user"
    text: Text = ""


Action = Annotated[
    Click | DoubleClick | Type | Key | Scroll | Drag | Hover | Wait | Navigate | Back | Done
    | CallUser,
    Field(discriminator="kind"),
]  # fmt: skip
ACTION_ADAPTER: TypeAdapter[Any] = TypeAdapter(Action)
ACTION_CLASSES = (
    Click, DoubleClick, Type, Key, Scroll, Drag, Hover, Wait, Navigate, Back, Done, CallUser,
)  # fmt: skip
KINDS: tuple[str, ...] = tuple(cls.model_fields["kind"].default for cls in ACTION_CLASSES)
POINT_FIELDS = (("x", "y"), ("to_x", "to_y"))


def points(action: Any) -> list[tuple[int, int]]:
    """The points an action names, in the order of POINT_FIELDS."""
    return [
        (getattr(action, fx), getattr(action, fy)) for fx, fy in POINT_FIELDS if hasattr(action, fx)
    ]


def action_to_css(action: Any, space: ScreenSpace) -> Any:
    """An action in model px as the same action in CSS px: its points and its scroll distances."""
    update: dict[str, int] = {}
    for fx, fy in POINT_FIELDS:
        if hasattr(action, fx):
            update[fx], update[fy] = space.to_css(getattr(action, fx), getattr(action, fy))
    if isinstance(action, Scroll):
        update["dx"], update["dy"] = space.distance_to_css(action.dx, action.dy)
    return action.model_copy(update=update)


def check_inside(action: Any, size: Size) -> None:
    """Raises BadAction when a point of the action lies outside ``size``."""
    for x, y in points(action):
        if not (0 <= x < size.width and 0 <= y < size.height):
            raise BadAction(
                f"{action.kind} at ({x}, {y}) is outside the screen of {size}",
                hint=f"points are pixels from (0, 0) to ({size.width - 1}, {size.height - 1})",
            )


def action_schema(kinds: Iterable[str] = KINDS) -> dict[str, Any]:
    """JSON schema of the union restricted to ``kinds``, for models that answer in JSON."""
    by_kind = dict(zip(KINDS, ACTION_CLASSES, strict=True))
    return {"oneOf": [by_kind[kind].model_json_schema() for kind in kinds]}
