"""Whether what a bundle says fits together: what no single field can show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agentserve.core.actions import points
from agentserve.core.actions.recorded import Resize
from agentserve.core.elements import ElementTarget, PageBox
from agentserve.core.errors import InvalidRequest
from agentserve.core.screens import ScreenSpace, Size, screen_space
from agentserve.replay.bundle.format import Meta, StepLine

MAX_PX = 10_000_000.0
"""No page is larger: farther coordinates are damage."""


@dataclass(frozen=True)
class LineReason:
    """What is wrong with a line of steps.jsonl, counted from 1."""

    number: int
    reason: str
    hint: str
    certain: bool = True
    """False: strange, but it may be so."""


def check_meta(meta: Meta) -> Iterator[str]:
    """Sentences about what does not fit in meta.json."""
    session, space = meta.session, meta.space
    if meta.source == "agent" and (session is None or space is None):
        yield "an agent's recording has a session and a space"
    if (meta.source == "import") != (meta.imported is not None):
        yield "source and imported do not fit"
    if session is not None and (session.viewport, session.scale) != (meta.viewport, meta.scale):
        yield "the session's viewport or scale is another one"
    if space is not None and not _is_space(space, meta):
        yield "the space is not the one that viewport and scale give"
    if not all(_is_near(mask) for mask in meta.masks):
        yield "a mask is farther away than any page is large"


def check_steps(
    meta: Meta, steps: Sequence[StepLine], sizes: Mapping[str, Size]
) -> Iterator[LineReason]:
    """``sizes`` are the screenshots' by their hashes, of those that can be decoded."""
    viewport = meta.viewport
    for number, step in enumerate(steps, start=1):
        size = sizes.get(step.screenshot or "")
        if size is not None and not _shows(size, viewport, meta):
            yield LineReason(
                number,
                f"the screenshot has {size} px, which is not viewport {viewport} at scale "
                f"{meta.scale:g}",
                "boxes and points are CSS px of the viewport: they would be looked for elsewhere",
                certain=meta.source != "import",
            )
        for x, y in points(step.performed) if step.performed is not None else ():
            if not _holds(viewport, (x, y)):
                yield LineReason(
                    number,
                    f"{step.performed.kind} at ({x}, {y}) is outside the viewport {viewport}",
                    "a replay finds it by its element, if the step has one",
                    certain=meta.source == "agent",
                )
        if isinstance(step.pointer, tuple) and not _holds(viewport, step.pointer):
            yield LineReason(
                number,
                f"the pointer at {step.pointer} is outside the viewport {viewport}",
                "a replay puts it there, and nothing will be under it",
                certain=False,
            )
        for target in (step.target, step.to_target):
            if target is not None and not _is_sane(target):
                yield LineReason(
                    number,
                    "an element's box or offset is farther away than any page is large",
                    "record the step again",
                )
        if isinstance(step.performed, Resize):
            viewport = step.performed.size


def _is_space(space: ScreenSpace, meta: Meta) -> bool:
    try:
        return space.grid > 0 and space == screen_space(meta.viewport, meta.scale, space.grid)
    except InvalidRequest:
        return False


def _shows(size: Size, viewport: Size, meta: Meta) -> bool:
    """Whether a picture of that size shows the viewport: in model px, device px or CSS px."""
    space = meta.space
    # one that is not sound has sizes that are none
    if space is not None and viewport == meta.viewport and _is_space(space, meta):
        if size in space.accepts():
            return True
    width, height = viewport.width * meta.scale, viewport.height * meta.scale
    return abs(size.width - width) <= 1 and abs(size.height - height) <= 1


def _holds(viewport: Size, point: tuple[int, int]) -> bool:
    return point[0] < viewport.width and point[1] < viewport.height


def _is_sane(target: ElementTarget) -> bool:
    near = target.box is None or _is_near(target.box)
    return near and all(abs(value) <= MAX_PX for value in target.offset or ())


def _is_near(box: PageBox) -> bool:
    return all(abs(value) <= MAX_PX for value in (box.x, box.y, box.width, box.height))
