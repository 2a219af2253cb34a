"""What a replay must find: the rules of the comparers, and what else a step may be.

``expect.json`` beside the recording holds what was said, and no more: an empty object means the
defaults, and a step's own rules replace only those fields that they name. It is indented, one step
an entry in their order, so that two people's changes to different steps merge::

    {
      "schema_version": 1,
      "actions": {"tolerance_px": 4.0},
      "screens": {"ignore": [{"x": 0, "y": 0, "width": 1120, "height": 24}]},
      "steps": [{"index": 3, "actions": {"texts": {"mode": "normalised"}}}]
    }

Points and boxes are CSS px. Like all of a bundle it may come from anyone: closed to unknown
fields, bounded, and patterns are those of an engine that always ends soon (texts.py).
"""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    Field,
    JsonValue,
    StringConstraints,
    ValidationError,
    field_serializer,
    model_validator,
)

from agentserve.core.actions.recorded import RecordedAction
from agentserve.core.elements import PageBox
from agentserve.core.errors import RecordingError
from agentserve.core.model import Wire
from agentserve.core.plans import Sha256
from agentserve.core.screens import MAX_SIDE
from agentserve.replay.bundle.entries import Entries
from agentserve.replay.bundle.format import EXPECT, MAX_EXPECT_BYTES, MAX_LINES
from agentserve.replay.bundle.reader import Recording
from agentserve.replay.bundle.writer import write_expectations

MAX_PATTERN = 500
MAX_REGIONS = 256
MAX_ACCEPTED = 64
MAX_FOUND_TEXT = 2000

Share = Annotated[float, Field(ge=0, le=1)]
Tokens = Annotated[int, Field(ge=0)]
Regions = Annotated[tuple[PageBox, ...], Field(max_length=MAX_REGIONS)]


class TextRule(Wire):
    """When two texts are the same."""

    mode: Literal["exact", "normalised", "regex"] = "exact"
    """``normalised``: without regard to case, to how white space is made up, and to which of
    several equal-looking characters was written (NFKC). ``regex``: the replayed text as a whole
    matches ``pattern``, whatever was recorded."""
    pattern: Annotated[str, StringConstraints(max_length=MAX_PATTERN)] | None = None
    """In RE2's syntax: that of Python's ``re`` without backreferences and looking around."""

    @model_validator(mode="after")
    def _pattern_with_regex(self) -> Self:
        if (self.mode == "regex") != (self.pattern is not None):
            raise ValueError("a pattern belongs to the mode regex, which needs one")
        return self


class ActionRule(Wire):
    """When two actions of one kind are the same."""

    checked: bool = True
    same_element: bool = True
    """Points are equal when the replayed one lies in the element that the recorded one hit. Not in
    the mode browser, which finds elements by their selectors and tells where they went."""
    regions: Regions = ()
    """Points are equal when both lie in one of these boxes."""
    tolerance_px: Annotated[float, Field(ge=0, le=MAX_SIDE)] = 12.0
    """Other points may lie this far apart. 12 px is half of the smallest target that WCAG 2.2 asks
    for (2.5.8: 24 by 24 CSS px, or as much room around): that far from its middle one still hits
    it. Android in the Wild's 14 % of the screen scores agents; here it would take most buttons of a
    form for each other."""
    texts: TextRule = TextRule()
    """Of typed and filled-in texts, addresses, a program's answers and variables."""


class ScreenRule(Wire):
    """When two screens are the same. A screen of another size never is."""

    checked: bool = True
    threshold: Share = 0.1
    """Of a pixel's colour distance (YIQ), 0 to 1, as pixelmatch and Playwright count it: up to it,
    pixels are equal. pixelmatch's default; Playwright's 0.2 lets a button's shade go."""
    count_antialiasing: bool = False
    """Whether pixels that are there to smooth an edge count as well."""
    shade: Annotated[float, Field(ge=0, le=100)] | None = 2.0
    """Of a colour's distance (CIE 1976 L*a*b*): in areas whose pixels all changed by more than this
    they are different whatever ``threshold`` says, which takes a pale red for a pale green. An area
    is wider than a caret or the edges of letters. People tell colours apart from 2.3 on; what
    another graphics card rounds is below 1. None: areas are compared as other pixels are."""
    max_share: Share | None = None
    """Of the compared pixels: so many may be different. None: none, or with ``window`` any."""
    window: Annotated[int, Field(ge=1, le=MAX_SIDE)] | None = None
    """Edge of a square, in CSS px. With it, different pixels may lie scattered over the screen, but
    not together: in no such square more than ``max_window_share`` of them."""
    max_window_share: Share = 0.1
    ignore: Regions = ()
    """Boxes that are not compared."""


class UsageRule(Wire):
    """What turns may cost, and which of their counts must be those of the recording. The budgets
    hold in the modes model and full, the counts in the mode model."""

    counts: tuple[
        Literal["screen_tokens", "sent_tokens", "visual_tokens", "pruned_tokens", "freed_tokens"],
        ...,
    ] = ("screen_tokens", "sent_tokens", "visual_tokens", "pruned_tokens")
    """Follow from the screens and the settings alone. ``freed_tokens`` depend on what else the
    worker holds, and so are not in the default."""
    max_turn_prefilled: Tokens | None = None
    """Most tokens that one turn computes."""
    max_prefilled: Tokens | None = None
    """Most tokens that all turns compute."""
    min_cached_share: Share | None = None
    """Of the prompts' tokens of all turns behind the first: so many are found in the cache."""


class OutcomeRule(Wire):
    """What must be true when the last step is done."""

    success: bool = True
    """The task's own check, where it has one, must say what it said in the recording."""
    expression: Annotated[str, StringConstraints(max_length=100_000)] | None = None
    """JavaScript, evaluated in the page in front when the mode browser has done the last step."""
    equals: JsonValue = True
    """What it must give."""


class AcceptedTarget(Wire):
    """What the mode browser may find instead of the element that an action was aimed at."""

    text: Annotated[str, StringConstraints(max_length=MAX_FOUND_TEXT)] | None
    """What the element shows that was found by its place alone; None: no selector finds one."""


AcceptedBy = Literal["model", "full", "browser"]


class AcceptedAction(Wire):
    """What a step may do instead of what was recorded: compared by the step's rules like that."""

    by: AcceptedBy = "model"
    """The mode that it holds in. ``model`` decides on the recorded screens, ``full`` on the pages
    of today: what is right on one of them may be wrong on the other. ``browser``: where that may
    find the element; it does what was recorded, and so says nothing of a decision."""
    action: RecordedAction | None = None
    """None: nothing, as when the answer is invalid."""
    box: PageBox | None = None
    """Of the element that it hit."""
    to_box: PageBox | None = None
    """Of a drag: of the element that it ended on."""
    invalid: str | None = None
    """What the model wrote instead of an action."""
    variables: dict[str, str] = Field(default_factory=dict)
    target: AcceptedTarget | None = None
    """None: the element that was recorded."""

    @field_serializer("action")
    def _whole(self, action: Any) -> Any:
        # unset fields are left out of the file, and an action's kind would be among them
        return action and action.model_dump(mode="json")


class StepExpectation(Wire):
    """What holds for one step: fields of rules that it names go before the general ones."""

    index: Annotated[int, Field(ge=0, lt=MAX_LINES)]
    actions: ActionRule = ActionRule()
    screens: ScreenRule = ScreenRule()
    usage: UsageRule = UsageRule()
    """Sums over all turns are no matter of a step's."""
    aria: bool | None = None
    prefix: bool | None = None
    accepted_actions: Annotated[tuple[AcceptedAction, ...], Field(max_length=MAX_ACCEPTED)] = ()
    """Instead of what was recorded, which passes only when it is among them. So of all below."""
    accepted_screens: Annotated[tuple[Sha256, ...], Field(max_length=MAX_ACCEPTED)] = ()
    """Screenshots of the bundle that the screen may be like."""
    accepted_aria: Annotated[tuple[Sha256, ...], Field(max_length=MAX_ACCEPTED)] = ()
    """Aria snapshots of the bundle, likewise."""
    accepted_counts: Annotated[dict[str, tuple[int, ...]], Field(max_length=16)] = Field(
        default_factory=dict
    )
    """Values that a count of UsageRule.counts may have."""

    def accepted_by(self, who: AcceptedBy) -> tuple[AcceptedAction, ...]:
        """Of ``accepted_actions`` those that say something of this one."""
        return tuple(one for one in self.accepted_actions if one.by == who)


Rule = TypeVar("Rule", ActionRule, ScreenRule, UsageRule)


class Expectations(Wire):
    """Content of expect.json."""

    schema_version: Literal[1] = 1
    actions: ActionRule = ActionRule()
    screens: ScreenRule = ScreenRule()
    usage: UsageRule = UsageRule()
    outcome: OutcomeRule = OutcomeRule()
    aria: bool = True
    """Whether aria snapshots are compared, where both sides have one."""
    prefix: bool = True
    """Whether each turn's prompt must extend the last one's, or say that it does not."""
    steps: Annotated[tuple[StepExpectation, ...], Field(max_length=MAX_LINES)] = ()
    """In the order of their index."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        indices = [step.index for step in self.steps]
        if indices != sorted(set(indices)):
            raise ValueError("each step is there once, in the order of the indices")
        return self

    def at(self, index: int) -> StepExpectation:
        """All that holds for a step: the general rules with the step's own put over them."""
        own = self.own(index)
        return own.model_copy(
            update={
                "actions": _over(self.actions, own.actions),
                "screens": _over(self.screens, own.screens),
                "usage": _over(self.usage, own.usage),
                "aria": self.aria if own.aria is None else own.aria,
                "prefix": self.prefix if own.prefix is None else own.prefix,
            }
        )

    def own(self, index: int) -> StepExpectation:
        """What was said of a step alone."""
        place = bisect_left(self.steps, index, key=lambda step: step.index)
        found = self.steps[place : place + 1]
        return found[0] if found and found[0].index == index else StepExpectation(index=index)


def parse_expectations(data: bytes, name: str) -> Expectations:
    """Raises RecordingError, naming the recording ``name``, for what does not fit."""
    try:
        return Expectations.model_validate_json(data, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])[:120]
        raise RecordingError(
            f"{name}: {EXPECT}: {where!r}: {first['msg'][:200]}",
            hint=f"correct it; without {EXPECT} what was recorded is expected, and "
            "agentserve replay --update writes another one",
        ) from error


def expectations_json(expectations: Expectations) -> bytes:
    """As it is stored: only what was said, indented."""
    whole = expectations.model_copy(update={"schema_version": 1})  # said, whoever made it
    return whole.model_dump_json(indent=2, exclude_unset=True).encode() + b"\n"


def expectations_of(recording: Recording) -> Expectations:
    """Those that lie beside a recording; the defaults when none do. Raises RecordingError."""
    return load_expectations(recording.entries)


def load_expectations(entries: Entries) -> Expectations:
    """The same of a bundle that was not read. Raises RecordingError, naming the entry, for ones
    that cannot be read or do not fit."""
    if not entries.has(EXPECT):
        return Expectations()
    return parse_expectations(entries.read(EXPECT, MAX_EXPECT_BYTES), entries.name)


def save_expectations(folder: Path, expectations: Expectations) -> None:
    """Write them beside the recording, whole or not at all. Raises RecordingError."""
    write_expectations(folder, expectations_json(expectations))


def _over(general: Rule, own: Rule) -> Rule:
    return general.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})
