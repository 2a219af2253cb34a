"""What became different between two screens, as people see it.

Pixels are compared by pixelmatch (Kotsarenko and Ramos' distance in YIQ, Vyšniauskas' detection of
antialiasing), in the port pixelmatch-fast: 11 ms for a screen of 1120x672 px with one changed
button, 140 ms for one that has changed all over, where the pure Python port takes 0.8 s and 19 s.
It compiles itself at its first use, and only screens that are not equal get there.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from agentserve.core.elements import PageBox
from agentserve.core.errors import AgentServeError, BadScreenshot, RecordingError
from agentserve.core.screens import Size
from agentserve.replay.bundle.format import MAX_SCREENSHOT_BYTES
from agentserve.replay.compare.difference import Difference, against_accepted
from agentserve.replay.compare.expectations import ScreenRule
from agentserve.replay.compare.regions import CELL, Change, Region, find_changes, find_regions
from agentserve.replay.compare.shades import shaded_areas
from agentserve.vision.screenshots import pixels_of

MAX_PARTS = 20
_AROUND = 3
"""Pixels around a changed one that pixelmatch looks at: a neighbour's neighbours, and no edge."""
_MARK = (224, 25, 125)

DEFAULT = ScreenRule()


@dataclass(frozen=True)
class ScreenComparison:
    """Differences, and where they are."""

    differences: list[Difference]
    picture: bytes | None = None
    """PNG of the screen's size, transparent but for the different pixels; None when there are none,
    or when the sizes differ."""


def screen_differences(
    recorded: bytes,
    replayed: bytes,
    rule: ScreenRule = DEFAULT,
    *,
    viewport: Size,
    accepted: Sequence[Callable[[], bytes]] = (),
) -> list[Difference]:
    """The differences of ``compare_screens``. Where ``accepted`` give screens, the replayed one
    must be like one of them, in place of the recorded one; the differences are those from the last.
    """
    if not accepted:
        return compare_screens(recorded, replayed, rule, viewport=viewport).differences
    last: list[Difference] | None = None
    for read in reversed(accepted):
        differences = compare_screens(read(), replayed, rule, viewport=viewport).differences
        if not differences:
            return []
        last = last or differences
    return against_accepted(last or [])


def compare_screens(
    recorded: bytes, replayed: bytes, rule: ScreenRule = DEFAULT, *, viewport: Size
) -> ScreenComparison:
    """Compare two PNGs of one ``viewport``, in CSS px; a PNG may have other px than that.

    At most one difference: ``screen.size``, or ``screen`` with the share of different pixels as its
    value and the changed regions as its parts, each a box ``[x, y, width, height]`` in CSS px and
    the share of its pixels. Blocking, some milliseconds. Raises RecordingError for a picture that
    cannot be read.
    """
    if not rule.checked or recorded == replayed:
        return ScreenComparison([])
    before, after = _pixels(recorded, "recorded"), _pixels(replayed, "replayed")
    if before.shape != after.shape:
        return ScreenComparison([_other_size(before, after)])
    height, width = before.shape[:2]
    scale = (width / viewport.width, height / viewport.height)
    compared = np.ones((height, width), bool)
    for box in rule.ignore:
        compared[_rows_and_columns(box, scale, compared.shape)] = False
    changed = (before != after).any(axis=2) & compared
    if not changed.any():
        return ScreenComparison([])
    seen = _different_pixels(before, after, changed, rule) & compared
    different = seen
    if rule.shade is not None:
        different = seen | shaded_areas(before, after, changed & ~seen, rule.shade, max(scale))
    count = int(different.sum())
    share = count / max(1, int(compared.sum()))
    reasons = _reasons(different, share, rule, scale)
    if not reasons:
        return ScreenComparison([])
    cell = max(1, round(CELL * max(scale)))
    regions = find_regions(different, cell)
    changes = find_changes(before, after, regions[:MAX_PARTS], cell)
    told = f"{percent(share)} of the screen differs"
    told += f" ({count:,} px in {_count(len(regions), 'region')})"
    if len(regions) > MAX_PARTS:
        told += f"; the largest {MAX_PARTS} are listed"
    difference = Difference(
        comparer="screen",
        field="screen",
        recorded=0.0,
        replayed=round(share, 6),
        message=": ".join([told, *reasons]) if reasons != [""] else told,
        parts=[_part(change, scale, seen) for change in changes],
    )
    return ScreenComparison([difference], _drawn(different))


def _pixels(png: bytes, whose: str) -> np.ndarray:
    """uint8 [height, width, 3]"""
    try:
        return pixels_of(
            png, max_bytes=MAX_SCREENSHOT_BYTES, what=f"the {whose} screen", formats=("PNG",)
        )
    except BadScreenshot as error:
        raise RecordingError(error.message, hint=error.hint) from error


def _other_size(before: np.ndarray, after: np.ndarray) -> Difference:
    was, now = (f"{pixels.shape[1]}x{pixels.shape[0]}" for pixels in (before, after))
    return Difference(
        comparer="screen",
        field="screen.size",
        recorded=was,
        replayed=now,
        message="screens of two sizes are not compared pixel by pixel",
    )


def _different_pixels(
    before: np.ndarray, after: np.ndarray, changed: np.ndarray, rule: ScreenRule
) -> np.ndarray:
    """bool [height, width]: of the ``changed`` pixels those that people would call different."""
    pixelmatch = _pixelmatch()
    rows, columns = (_around(changed.any(axis=axis)) for axis in (1, 0))
    mask = Image.new("RGBA", (columns.stop - columns.start, rows.stop - rows.start))
    pixelmatch(
        Image.fromarray(np.ascontiguousarray(before[rows, columns])),
        Image.fromarray(np.ascontiguousarray(after[rows, columns])),
        mask,
        threshold=rule.threshold,
        includeAA=rule.count_antialiasing,
        diff_mask=True,
    )
    different = np.zeros(changed.shape, bool)
    different[rows, columns] = np.asarray(mask)[..., 3] > 0
    return different


def _pixelmatch() -> Any:
    try:
        from pixelmatch import pixelmatch
    except ImportError as error:
        raise AgentServeError(
            "screens are compared by pixelmatch, which is not installed",
            hint="pip install 'agentserve[replay]'",
        ) from error
    except RuntimeError as error:  # numba finds no folder that it may write to
        raise AgentServeError(
            f"pixelmatch cannot keep what it compiles: {error}",
            hint="set NUMBA_CACHE_DIR to a folder that may be written to",
        ) from error
    return pixelmatch


def _around(anything: np.ndarray) -> slice:
    """From the first to the last True of bool [n], with some more on both sides."""
    at = np.flatnonzero(anything)
    return slice(max(0, int(at[0]) - _AROUND), min(len(anything), int(at[-1]) + 1 + _AROUND))


def _reasons(
    different: np.ndarray, share: float, rule: ScreenRule, scale: tuple[float, float]
) -> list[str]:
    """Why these pixels are too many, [""] when no reason is needed; [] when they are not."""
    reasons = []
    most = rule.max_share
    if most is None:
        most = 0.0 if rule.window is None else 1.0
    if share > most:
        reasons.append(f"{percent(most)} may" if most else "")
    if rule.window is not None:
        densest = densest_window(different, rule.window, scale)
        if densest > rule.max_window_share:
            size = f"{rule.window}x{rule.window} px"
            reasons.append(
                f"{densest:.1%} of a window of {size} differ, {rule.max_window_share:.1%} may"
            )
    return [reason for reason in reasons if reason] or reasons[:1]


def densest_window(different: np.ndarray, edge: int, scale: tuple[float, float]) -> float:
    """The largest share of different pixels, bool [height, width], in any square of ``edge`` CSS
    px, or in the screen where that is smaller."""
    height, width = different.shape
    across = min(width, max(1, round(edge * scale[0])))
    down = min(height, max(1, round(edge * scale[1])))
    sums = np.zeros((height + 1, width + 1), np.int64)
    sums[1:, 1:] = different.cumsum(axis=0).cumsum(axis=1)
    inside = sums[down:, across:] - sums[:-down, across:] - sums[down:, :-across]
    return float((inside + sums[:-down, :-across]).max()) / (across * down)


def _part(change: Change, scale: tuple[float, float], seen: np.ndarray) -> Difference:
    """``seen`` is bool [height, width]: the pixels that differ by more than their shade."""
    box, share = _css(change.region, scale), round(change.region.share, 4)
    if change.to is None:
        shade = not change.region.of(seen).any()
        return Difference(
            comparer="screen",
            field="screen.shade" if shade else "screen.region",
            replayed={"box": box, "share": share},
            message=f"{change.region.share:.0%} of it differs{' in its shade' if shade else ''}",
        )
    to = _css(change.to, scale)
    return Difference(
        comparer="screen",
        field="screen.region",
        recorded={"box": box},
        replayed={"box": to, "share": share},
        message=f"moved by ({round(to[0] - box[0])}, {round(to[1] - box[1])}) px",
    )


def percent(share: float) -> str:
    """In as many digits as tell it from nothing."""
    if share == 0 or share >= 0.0001:
        return f"{share:.2%}"
    return f"{np.format_float_positional(share * 100, precision=2, fractional=False)}%"


def _css(region: Region, scale: tuple[float, float]) -> list[float]:
    return [
        round(region.x / scale[0], 2),
        round(region.y / scale[1], 2),
        round(region.width / scale[0], 2),
        round(region.height / scale[1], 2),
    ]


def _rows_and_columns(
    box: PageBox, scale: tuple[float, float], shape: tuple[int, ...]
) -> tuple[slice, slice]:
    """Every pixel that a box in CSS px touches."""

    def along(begin: float, length: float, factor: float, most: int) -> slice:
        first = min(max(0.0, begin * factor), float(most))
        last = min(max(0.0, (begin + length) * factor), float(most))
        return slice(int(np.floor(first)), int(np.ceil(last)))

    return (
        along(box.y, box.height, scale[1], shape[0]),
        along(box.x, box.width, scale[0], shape[1]),
    )


def _drawn(different: np.ndarray) -> bytes:
    """A PNG of two colours: nothing, and the mark."""
    image = Image.fromarray(different.astype(np.uint8), "P")
    image.putpalette([0, 0, 0, *_MARK])
    out = io.BytesIO()
    image.save(out, "PNG", transparency=0)
    return out.getvalue()


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
