"""Screenshots as what has changed: made, applied, and made up by somebody hostile."""

from __future__ import annotations

import io
import random
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from agentserve.core.errors import BadScreenshot
from agentserve.core.plans import Box
from agentserve.core.screens import Size, screen_space
from agentserve.core.screenshots import MAX_REGIONS
from agentserve.vision.cells import as_png, identity, part
from agentserve.vision.patches import (
    Region,
    ScreenPatch,
    apply_patch,
    changed_boxes,
    make_regions,
    name_of_sent,
)
from agentserve.vision.screenshots import Screenshot, open_screenshot, pixels_of
from agentserve.vision.sent import SentScreens

WIDTH, HEIGHT = 333, 210  # three bytes a pixel and an odd width: no row is a multiple of four bytes
SPACE = screen_space(Size(width=WIDTH, height=HEIGHT), 1, 28)
LIMIT = 1_000_000
BASE = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)


def changed(*boxes: Box, seed: int = 1) -> np.ndarray:
    pixels = BASE.copy()
    noise = np.random.default_rng(seed)
    for box in boxes:
        part(pixels, box)[:] = noise.integers(0, 256, (box.height, box.width, 3), np.uint8)
    return pixels


def box(x: int, y: int, width: int = 1, height: int = 1) -> Box:
    return Box(x=x, y=y, width=width, height=height)


def patch(after: np.ndarray, regions: list[Region], base: bytes = b"") -> ScreenPatch:
    return ScreenPatch(base or as_png(BASE), regions, identity(after))


def apply(sent: ScreenPatch):
    return apply_patch(sent, SPACE, max_bytes=LIMIT)


def seen(shot: Screenshot) -> str:
    return identity(pixels_of(shot.data, max_bytes=LIMIT, what="it"))


def kind(data: bytes, name: str) -> bytes:
    out = io.BytesIO()
    Image.open(io.BytesIO(data)).save(out, name)
    return out.getvalue()


@pytest.mark.parametrize("seed", range(30))
def test_what_differs_is_covered_once_and_tightly(seed):
    draw = random.Random(seed)
    boxes = []
    for _ in range(draw.randrange(6)):
        x, y = draw.randrange(WIDTH), draw.randrange(HEIGHT)
        size = draw.randint(1, min(90, WIDTH - x)), draw.randint(1, min(90, HEIGHT - y))
        boxes.append(box(x, y, *size))
    after = changed(*boxes, seed=seed)
    differs = (BASE != after).any(axis=2)
    covered = np.zeros_like(differs, int)
    for found in changed_boxes(BASE, after):
        part(covered, found)[:] += 1
        inside = part(differs, found)
        assert all(edge.any() for edge in (inside[0], inside[-1], inside[:, 0], inside[:, -1]))
    assert covered.max(initial=0) <= 1
    assert not (differs & (covered == 0)).any()


def test_a_patch_gives_the_same_screen_as_the_whole():
    after = changed(box(3, 4, 50, 9), box(200, 100, 133, 110))
    regions = make_regions(BASE, after)
    assert sum(len(region.png) for region in regions) < len(as_png(after))
    shot = apply(patch(after, regions))
    whole = open_screenshot(as_png(after), SPACE, max_bytes=LIMIT)
    assert shot.model_image == whole.model_image
    assert (pixels_of(shot.data, max_bytes=LIMIT, what="it") == after).all()
    assert name_of_sent(patch(after, regions)) == identity(after)


def test_nothing_changed_is_a_patch_without_regions():
    assert make_regions(BASE, BASE.copy()) == []
    assert seen(apply(patch(BASE, []))) == identity(BASE)


def test_later_regions_lie_over_earlier_ones():
    first, second = changed(box(0, 0, 9, 9), seed=1), changed(box(0, 0, 9, 9), seed=2)
    regions = [*make_regions(BASE, first), *make_regions(BASE, second)]
    assert seen(apply(patch(second, regions))) == identity(second)


def test_a_screen_of_another_size_or_in_too_many_parts_is_no_patch():
    assert make_regions(BASE, BASE[:, :-1]) is None
    wide = np.zeros((64 * 24, 64 * 24, 3), np.uint8)
    dots = wide.copy()
    dots[::128, ::128] = 1
    dots[64::128, 64::128] = 1
    assert len(changed_boxes(wide, dots)) > MAX_REGIONS
    assert make_regions(wide, dots) is None


def bomb(width: int, height: int) -> bytes:
    """A PNG that claims a size and has next to no data."""
    png = as_png(BASE[:1, :1])
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return png[:12] + head + struct.pack(">I", zlib.crc32(head)) + png[33:]


DOT = as_png(BASE[:1, :1])
TINY = Region(box(0, 0), DOT)
HOSTILE = {
    "outside": ([Region(box(WIDTH, 0), DOT)], "not inside"),
    "far outside": ([Region(box(2**40, 2**62), DOT)], "not inside"),
    "too large a box": ([Region(box(1, 0, WIDTH, 1), DOT)], "not inside"),
    "another size than its box": ([Region(box(0, 0, 2, 1), DOT)], "region 0 has 1x1"),
    "a bomb": ([TINY, Region(box(0, 0, 5, 5), bomb(5, 5))], "region 1's PNG data is damaged"),
    "a larger bomb": ([Region(box(0, 0, 5, 5), bomb(8000, 8000))], "pixels"),
    "not a picture": ([Region(box(0, 0), b"GIF89a")], "not a PNG picture"),
    "another format": ([Region(box(0, 0), kind(DOT, "WEBP"))], "not a PNG picture"),
    "empty": ([Region(box(0, 0), b"")], "is empty"),
    "cut off": ([Region(box(0, 0, 60, 60), as_png(BASE[:60, :60])[:-900])], "damaged"),
    "too many": ([TINY] * (MAX_REGIONS + 1), "regions"),
    "too many bytes": ([Region(box(0, 0), DOT + bytes(LIMIT))], "bytes"),
    "too many pixels": ([Region(box(0, 0, WIDTH, HEIGHT), as_png(BASE)), TINY], "more pixels"),
}


@pytest.mark.parametrize(("regions", "told"), list(HOSTILE.values()), ids=list(HOSTILE))
def test_hostile_regions_are_refused(regions, told):
    with pytest.raises(BadScreenshot, match=told):
        apply(patch(BASE, regions))


@pytest.mark.parametrize("base", [b"", b"no picture", as_png(BASE)[:-30], bomb(9000, 9000)])
def test_a_base_may_be_hostile_too(base):
    with pytest.raises(BadScreenshot, match="the patch's base"):
        apply_patch(ScreenPatch(base, [], "0" * 64), SPACE, max_bytes=LIMIT)


def test_other_pixels_than_promised_are_refused():
    after = changed(box(5, 5, 20, 20))
    regions = make_regions(BASE, after)
    with pytest.raises(BadScreenshot, match=identity(after)) as told:
        apply(ScreenPatch(as_png(changed(box(100, 100, 1, 1))), regions, identity(after)))
    assert "whole" in told.value.hint


def test_a_base_of_another_size_than_the_screen_is_refused():
    small = BASE[:-1]
    with pytest.raises(BadScreenshot, match="this session's screen is"):
        apply(ScreenPatch(as_png(small), [], identity(small)))


# what a client remembers


def test_a_client_sends_a_patch_only_when_it_is_smaller():
    screens = SentScreens()
    first = screens.outgoing("s", as_png(BASE))
    assert first.patch is None
    screens.arrived("s", first, "a" * 64)
    little = screens.outgoing("s", as_png(changed(box(9, 9, 5, 5))))
    assert little.patch.base == "a" * 64 and len(little.patch.regions) == 1
    assert screens.outgoing("other", as_png(BASE)).patch is None
    everything = changed(box(0, 0, WIDTH, HEIGHT))
    assert screens.outgoing("s", as_png(everything)).patch is None
    assert screens.outgoing("s", as_png(BASE[:-1])).patch is None
    assert screens.outgoing("s", b"no picture").pixels is None
    screens.forget("s")
    assert screens.outgoing("s", as_png(BASE)).patch is None


def test_a_client_remembers_the_latest_sessions():
    screens = SentScreens()
    small = as_png(BASE[:8, :8])
    for number in range(40):
        screens.arrived(f"s{number}", screens.outgoing("new", small), "a" * 64)
    assert screens.outgoing("s0", small).patch is None
    assert screens.outgoing("s39", small).patch is not None
