import io
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont
from pixelmatch import pixelmatch

from agentserve.core.elements import PageBox
from agentserve.core.errors import RecordingError
from agentserve.core.screens import Size
from agentserve.replay.compare.expectations import ScreenRule
from agentserve.replay.compare.regions import find_regions
from agentserve.replay.compare.screens import (
    MAX_PARTS,
    compare_screens,
    densest_window,
    screen_differences,
)

VIEWPORT = Size(width=400, height=300)
BUTTON = (120, 90, 219, 121)


def draw(
    button=BUTTON, colour=(40, 90, 200), text="Save", scale=1, dialog=None, ground=(245, 245, 242)
) -> Image.Image:
    """A small page: a heading, a line, a button with its text."""
    image = Image.new("RGB", (400 * scale, 300 * scale), ground)
    pen = ImageDraw.Draw(image)
    font = ImageFont.load_default(14 * scale)
    pen.text((20 * scale, 20 * scale), "Settings of the account", (20, 20, 30), font)
    pen.line((20 * scale, 60 * scale, 380 * scale, 60 * scale), (200, 200, 200))
    if button:
        box = [side * scale for side in button]
        pen.rounded_rectangle(box, 6 * scale, colour)
        pen.text((box[0] + 30 * scale, box[1] + 6 * scale), text, (255, 255, 255), font)
    if dialog:
        pen.rectangle(dialog, (180, 190, 205), (90, 90, 90))
    return image


def png(image: Image.Image) -> bytes:
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def compared(one: Image.Image, other: Image.Image, rule=None, viewport=VIEWPORT):
    return screen_differences(png(one), png(other), rule or ScreenRule(), viewport=viewport)


def test_equal_screens_do_not_differ_however_they_are_stored():
    image = draw()
    packed = io.BytesIO()
    image.save(packed, "PNG", compress_level=0)
    assert packed.getvalue() != png(image)
    rule = ScreenRule(threshold=0)
    assert screen_differences(png(image), packed.getvalue(), rule, viewport=VIEWPORT) == []
    assert screen_differences(b"not read", b"not read", rule, viewport=VIEWPORT) == []


def test_a_changed_colour_is_told_with_its_region_and_share():
    (difference,) = compared(draw(), draw(colour=(40, 140, 60)))
    assert (difference.comparer, difference.field, difference.recorded) == ("screen", "screen", 0.0)
    assert difference.replayed == pytest.approx(3200 / 120_000, rel=0.2)
    (region,) = difference.parts
    x, y, width, height = region.replayed["box"]
    assert (x, y) == pytest.approx((120, 90), abs=3)
    assert (x + width, y + height) == pytest.approx((220, 122), abs=3)
    assert region.replayed["share"] > 0.8
    assert "1 region" in difference.message and "of it differs" in region.message


def test_a_changed_text_lies_within_the_button():
    (difference,) = compared(draw(), draw(text="Send"))
    for region in difference.parts:
        x, y, width, height = region.replayed["box"]
        assert 120 <= x and x + width <= 220 and 90 <= y and y + height <= 122
        assert "moved" not in region.message


@pytest.mark.parametrize(
    ("dx", "dy"), [(40, 0), (-40, 0), (0, 40), (0, 12), (130, 20), (0, 100), (-60, 60)]
)
def test_a_button_that_moved_is_told_by_how_much(dx: int, dy: int):
    left, top, right, bottom = BUTTON
    moved = draw((left + dx, top + dy, right + dx, bottom + dy))
    (difference,) = compared(draw(), moved)
    (part,) = difference.parts
    assert part.message == f"moved by ({dx}, {dy}) px"
    was, now = part.recorded["box"], part.replayed["box"]
    assert was[:2] == pytest.approx([120, 90], abs=3)
    assert [now[0] - was[0], now[1] - was[1]] == [dx, dy] and now[2:] == was[2:]


def test_a_button_that_moved_and_changed_is_not_called_moved():
    left, top, right, bottom = BUTTON
    for dx in (40, 150):
        place = (left + dx, top, right + dx, bottom)
        (difference,) = compared(draw(), draw(place, text="Delete"))
        assert not any("moved" in part.message for part in difference.parts)
    (difference,) = compared(draw(), draw(None))
    assert len(difference.parts) == 1
    assert difference.parts[0].message.endswith("% of it differs")


def test_a_dialog_and_a_far_change_are_two_regions():
    changed = draw(colour=(140, 20, 20), dialog=(250, 180, 380, 280))
    (difference,) = compared(draw(), changed)
    assert len(difference.parts) == 2 and "2 regions" in difference.message
    biggest = difference.parts[0].replayed["box"]
    assert biggest == pytest.approx([250, 180, 131, 101], abs=1)


def test_sizes_must_be_the_same():
    (difference,) = compared(draw(), draw().resize((200, 150)), ScreenRule(max_share=1))
    assert (difference.field, difference.recorded, difference.replayed) == (
        "screen.size",
        "400x300",
        "200x150",
    )


def test_ignored_boxes_are_neither_compared_nor_counted():
    covers = PageBox(x=118.5, y=89, width=103, height=34)
    changed = draw(colour=(0, 0, 0))
    assert compared(draw(), changed, ScreenRule(ignore=(covers,))) == []
    half = PageBox(x=0, y=0, width=170, height=300)
    (difference,) = compared(draw(), changed, ScreenRule(ignore=(half,)))
    assert difference.parts[0].replayed["box"][0] == 170
    assert difference.replayed == pytest.approx(50 * 32 / (230 * 300), rel=0.1)
    outside = PageBox(x=-500, y=5000, width=10, height=1e9)
    assert compared(draw(), changed, ScreenRule(ignore=(outside,)))
    everything = PageBox(x=-1, y=-1, width=1e300, height=1e300)
    assert compared(draw(), changed, ScreenRule(ignore=(everything,))) == []


def test_boxes_are_in_css_px_whatever_the_screenshot_s_scale():
    covers = PageBox(x=118, y=88, width=104, height=36)
    one, other = draw(scale=2), draw(scale=2, colour=(0, 0, 0))
    assert compared(one, other, ScreenRule(ignore=(covers,))) == []
    (difference,) = compared(one, other)
    assert difference.parts[0].replayed["box"] == pytest.approx([120, 90, 100, 32], abs=3)
    (moved,) = compared(one, draw((160, 90, 259, 121), scale=2))
    assert moved.parts[0].message == "moved by (40, 0) px"


def test_the_threshold_decides_which_shades_are_equal():
    nearly = draw(colour=(44, 94, 204))
    assert compared(draw(), nearly) == []
    assert compared(draw(), nearly, ScreenRule(threshold=0.001))
    assert compared(draw(), draw(colour=(40, 90, 120)))
    by_threshold = ScreenRule(threshold=0.5, shade=None)
    assert compared(draw(), draw(colour=(40, 90, 120)), by_threshold) == []


def hexed(colour: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(colour))


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("d4edda", "f8d7da"),
        ("fff3cd", "f8d7da"),
        ("dc3545", "bb2d3b"),
        ("0d6efd", "0b5ed7"),
        ("ffffff", "e8f0fe"),
        ("ffffff", "f5f5f5"),
        ("e0e0e0", "f5f5f5"),
    ],
)
@pytest.mark.parametrize("scale", [1, 2])
def test_another_shade_of_an_area_is_a_difference(was: str, now: str, scale: int):
    """That of a button around its text, too, though a pixel by itself is within the threshold."""
    one, other = (draw(colour=hexed(colour), scale=scale) for colour in (was, now))
    alone = ScreenRule(shade=None)
    (difference,) = compared(one, other)
    assert difference.parts[0].replayed["box"] == pytest.approx([120, 90, 100, 32], abs=3)
    if not compared(one, other, alone):
        assert {part.field for part in difference.parts} == {"screen.shade"}
    assert compared(one, other, ScreenRule(shade=100, threshold=1)) == []


def test_shades_count_as_other_pixels_do():
    one, other = draw(colour=hexed("d4edda")), draw(colour=hexed("f8d7da"))
    assert compared(one, other, ScreenRule(max_share=0.05)) == []
    assert compared(one, other, ScreenRule(max_share=0.01))
    covers = PageBox(x=118, y=88, width=104, height=36)
    assert compared(one, other, ScreenRule(ignore=(covers,))) == []


@pytest.mark.parametrize("box", [(50, 50, 51, 70), (50, 50, 52, 200), (50, 50, 56, 56)])
def test_what_is_narrow_or_small_has_no_shade(box: tuple[int, ...]):
    """A caret, a line, and what has less than 64 px, in a shade within the threshold."""
    ground = Image.new("RGB", (400, 300), hexed("d4edda"))
    other = ground.copy()
    ImageDraw.Draw(other).rectangle(box, hexed("f8d7da"))
    assert compared(ground, other) == []
    ImageDraw.Draw(other).rectangle((50, 50, 57, 57), hexed("f8d7da"))
    assert compared(ground, other)


@pytest.mark.parametrize("quarters", [1, 2])
def test_text_that_lies_a_part_of_a_px_elsewhere_has_no_shade(quarters: int):
    def page(quarters: int) -> Image.Image:
        image = Image.new("RGB", (1600, 1200), (255, 255, 255))
        pen = ImageDraw.Draw(image)
        for row in range(12):
            font = ImageFont.load_default(4 * (12 + row))
            pen.text((80 + quarters, 96 * row), "Settings of the account", (90, 90, 90), font)
        return image.resize((400, 300), Image.BOX)

    one, other = page(0), page(quarters)
    plain = compared(one, other, ScreenRule(shade=None))
    assert [d.replayed for d in compared(one, other)] == [d.replayed for d in plain]


def test_a_whole_screen_of_another_shade_is_measured_in_time():
    one = Image.new("RGB", (1120, 672), hexed("d4edda"))
    other = Image.new("RGB", (1120, 672), hexed("f8d7da"))
    view = Size(width=1120, height=672)
    begun = time.perf_counter()
    (difference,) = compared(one, other, viewport=view)
    assert time.perf_counter() - begun < 20 and difference.replayed == 1.0


def test_a_window_alone_lets_scattered_pixels_be():
    changed = draw()
    for x in range(10, 400, 40):
        changed.putpixel((x, 200), (0, 0, 0))
    assert compared(draw(), changed)
    assert compared(draw(), changed, ScreenRule(window=32)) == []
    assert compared(draw(), changed, ScreenRule(window=32, max_share=0.0)), "that was asked for"
    ImageDraw.Draw(changed).rectangle((300, 200, 330, 230), (0, 0, 0))
    (difference,) = compared(draw(), changed, ScreenRule(window=32))
    assert "of a window of 32x32 px differ" in difference.message


def test_a_small_share_is_not_told_as_none():
    one = Image.new("RGB", (1120, 672), (255, 255, 255))
    other = one.copy()
    other.putpixel((500, 300), (0, 0, 0))
    (difference,) = compared(one, other, viewport=Size(width=1120, height=672))
    assert difference.message.startswith("0.00013% of the screen differs (1 px in 1 region)")


def test_smoothed_edges_are_not_counted_unless_asked():
    def circle(x: float) -> Image.Image:
        large = Image.new("RGB", (1600, 1200), (255, 255, 255))
        ImageDraw.Draw(large).ellipse((400 + x, 300, 800 + x, 700), (20, 20, 20))
        return large.resize((400, 300), Image.BOX)

    one, other = circle(0), circle(1)
    assert compared(one, other, ScreenRule(count_antialiasing=True))
    smoothed = compared(one, other)
    assert not smoothed or smoothed[0].replayed < 0.0002


def test_a_share_may_be_allowed_but_not_all_in_one_place():
    changed = draw(colour=(0, 0, 0))
    assert compared(draw(), changed, ScreenRule(max_share=0.05)) == []
    (difference,) = compared(draw(), changed, ScreenRule(max_share=0.01))
    assert difference.message.endswith(": 1.00% may")
    (difference,) = compared(draw(), changed, ScreenRule(max_share=0.05, window=20))
    assert "of a window of 20x20 px differ, 10.0% may" in difference.message
    wide = ScreenRule(max_share=0.05, window=300)
    assert compared(draw(), changed, wide) == []


def test_the_densest_window_is_the_densest_of_all():
    rng = np.random.default_rng(3)
    different = rng.random((37, 53)) < 0.2
    for edge in (1, 5, 20, 100):
        tall, wide = min(edge, 37), min(edge, 53)
        best = max(
            different[y : y + tall, x : x + wide].mean()
            for y in range(37 - tall + 1)
            for x in range(53 - wide + 1)
        )
        assert densest_window(different, edge, (1.0, 1.0)) == pytest.approx(best)


@pytest.mark.parametrize("antialiasing", [False, True])
def test_the_count_is_pixelmatch_s_of_the_whole_screens(antialiasing: bool):
    """Only what changed is looked at, which must change nothing."""
    rng = np.random.default_rng(5)
    rule = ScreenRule(count_antialiasing=antialiasing, shade=None)
    for _ in range(12):
        one = Image.fromarray(rng.integers(0, 255, (30, 40, 3), dtype=np.uint8))
        one = one.resize((400, 300), Image.BILINEAR)
        other = one.copy()
        x, y, width, height = (int(side) for side in rng.integers(1, 120, 4))
        pen = ImageDraw.Draw(other)
        pen.ellipse((x, y, x + width, y + height), tuple(rng.integers(0, 255, 3).tolist()))
        pen.text((x, y), "some text", (0, 0, 0))
        whole = pixelmatch(one, other, threshold=rule.threshold, includeAA=antialiasing)
        (difference,) = compared(one, other, rule)
        assert round(difference.replayed * 120_000) == whole > 0


def test_the_picture_marks_the_different_pixels_alone():
    one, other = draw(), draw(colour=(0, 0, 0))
    comparison = compare_screens(png(one), png(other), viewport=VIEWPORT)
    picture = Image.open(io.BytesIO(comparison.picture)).convert("RGBA")
    assert picture.size == (400, 300)
    marked = np.asarray(picture)[..., 3] > 0
    assert round(comparison.differences[0].replayed * 120_000) == marked.sum()
    assert marked[105, 125] and not marked[50, 50]
    assert compare_screens(png(one), png(one), viewport=VIEWPORT).picture is None


def test_many_regions_are_cut_to_the_largest():
    changed = draw()
    pen = ImageDraw.Draw(changed)
    for row in range(6):
        for column in range(6):
            x, y = 8 + 40 * column, 132 + 28 * row
            pen.rectangle((x, y, x + 3 + column, y + 3), (0, 0, 0))
    (difference,) = compared(draw(), changed)
    assert len(difference.parts) == MAX_PARTS
    assert f"36 regions); the largest {MAX_PARTS} are listed" in difference.message
    assert difference.parts[0].replayed["box"][2] == 9


def test_regions_hold_every_different_pixel():
    rng = np.random.default_rng(7)
    different = rng.random((101, 203)) < 0.004
    regions = find_regions(different)
    covered = np.zeros_like(different)
    for region in regions:
        region.of(covered)[:] = True
        assert region.of(different).any(axis=0)[[0, -1]].all()
        assert region.of(different).any(axis=1)[[0, -1]].all()
    assert not (different & ~covered).any()
    assert sum(region.count for region in regions) == different.sum()
    assert find_regions(np.zeros((10, 10), bool)) == []


def test_an_accepted_screen_stands_in_the_recorded_one_s_place():
    one, other, third = png(draw()), png(draw(colour=(0, 0, 0))), png(draw(text="Go"))
    read = []

    def accepted() -> bytes:
        read.append(1)
        return other

    def differ(replayed: bytes) -> bool:
        return bool(screen_differences(one, replayed, viewport=VIEWPORT, accepted=[accepted]))

    assert not differ(other) and read == [1]
    assert differ(third)
    assert differ(one), "the recorded one is not among the accepted ones"
    accept = [lambda: one, lambda: other]
    assert not screen_differences(one, one, viewport=VIEWPORT, accepted=accept)
    (difference,) = screen_differences(one, third, viewport=VIEWPORT, accepted=accept)
    assert difference.message.endswith("what was accepted, not with what was recorded")


def test_switched_off_nothing_is_compared():
    assert compared(draw(), draw().resize((10, 10)), ScreenRule(checked=False)) == []


@pytest.mark.parametrize("whose", ["recorded", "replayed"])
@pytest.mark.parametrize("data", [b"", b"GIF89a", png(draw())[:400]], ids=["empty", "gif", "cut"])
def test_a_picture_that_cannot_be_read_is_named(whose: str, data: bytes):
    pair = (data, png(draw())) if whose == "recorded" else (png(draw()), data)
    with pytest.raises(RecordingError, match=f"the {whose} screen"):
        screen_differences(*pair, viewport=VIEWPORT)


def test_a_large_screen_that_changed_all_over_takes_no_time():
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 255, (336, 560, 3), dtype=np.uint8)
    one = Image.fromarray(noise).resize((1120, 672))
    other = Image.fromarray(np.roll(np.asarray(one), 40, 1))
    pair = png(one), png(other)
    viewport = Size(width=1120, height=672)
    screen_differences(*pair, viewport=viewport)  # compiles
    begun = time.process_time()
    assert screen_differences(*pair, viewport=viewport)
    assert time.process_time() - begun < 5


def test_only_screens_that_differ_need_the_compiler():
    """A replay that finds nothing loads no LLVM, and works without the extra."""
    code = """
import io, sys
from PIL import Image
import agentserve.replay
from agentserve.core.screens import Size
from agentserve.replay.compare.screens import screen_differences
def png(level):
    out = io.BytesIO(); Image.new("RGB", (9, 9)).save(out, "PNG", compress_level=level)
    return out.getvalue()
assert png(0) != png(9)
assert screen_differences(png(0), png(9), viewport=Size(width=9, height=9)) == []
print(sorted({"pixelmatch", "numba", "yaml", "re2"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
