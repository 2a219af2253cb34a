import base64
import hashlib
import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw
from playwright.async_api import Browser, Page
from replay.pages.opening import ATTACK, opened, texts
from replay.replay_builders import SPACE
from replay.report_builders import FAILURE, POINT, make_report, make_side, make_step_report

from agentserve.core.actions import Click, Drag, Hover, Type
from agentserve.core.elements import PageBox
from agentserve.core.errors import RecordingError
from agentserve.core.sessions import InvalidAction, TokenMap, Usage
from agentserve.replay import EndLine, Recording, Replayed, StepLine, read_recording
from agentserve.replay.bundle.format import Meta
from agentserve.replay.bundle.writer import RecordingWriter
from agentserve.replay.compare.difference import Difference
from agentserve.replay.compare.expectations import (
    Expectations,
    ScreenRule,
    save_expectations,
)
from agentserve.replay.compare.screens import screen_differences
from agentserve.replay.heatmap import TINTS
from agentserve.replay.modes.reporting import unread_report
from agentserve.replay.pages.replay import write_replay_page

CSS = (SPACE.css.width, SPACE.css.height)
"""160 x 210"""


def draw(x: int = 20, colour=(30, 90, 200), ground=(250, 250, 248)) -> bytes:
    """A screen with a button at ``x``, in CSS px."""
    image = Image.new("RGB", CSS, ground)
    ImageDraw.Draw(image).rectangle((x, 100, x + 49, 119), colour)
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def sha(png: bytes) -> str:
    return hashlib.sha256(png).hexdigest()


def record(folder: Path, name: str, *pictures: bytes) -> Recording:
    meta = Meta(
        id=name,
        created_at="2025-11-29T12:00:00Z",
        agentserve_version="0",
        source="person",
        url="http://127.0.0.1/",
        viewport=SPACE.css,
    )
    writer = RecordingWriter(folder, meta)
    for index, png in enumerate(pictures):
        writer.append(StepLine(index=index, url="", screenshot=writer.add_screenshot(png)))
    writer.append(EndLine(end="closed", turns=len(pictures)))
    return read_recording(writer.folder)


def live(folder: Path, name: str, *pairs: tuple[bytes, bytes], **update) -> Replayed:
    """A replay in a browser: what was seen, and what is seen now."""
    recording = record(folder, name, *(was for was, _ in pairs))
    steps = []
    for index, (was, now) in enumerate(pairs):
        differences = screen_differences(was, now, viewport=SPACE.css)
        sides = (
            make_side(screenshot=sha(png), usage=None, action=Click(x=30, y=110))
            for png in (was, now)
        )
        recorded, replayed = sides
        step = make_step_report(index, *differences, recorded=recorded, replayed=replayed)
        steps.append(step)
    report = make_report(*steps, **{"name": name, "mode": "browser", "program": "", **update})
    return Replayed(report, recording, {sha(now): now for _, now in pairs})


@pytest.fixture
def results(tmp_path: Path) -> list[Replayed]:
    """One that is the same, one whose button moved and then changed its colour, one whose model
    pointed elsewhere, and one that ended early."""
    folder = tmp_path / "recordings"
    png = draw()
    model = record(folder, "pointed", png)
    pointed = make_step_report(
        0,
        POINT,
        recorded=make_side(screenshot=sha(png)),
        replayed=make_side(cached=0, screenshot=sha(png), action=Click(x=90, y=60)),
    )
    return [
        live(folder, "clean", (png, png), (png, png), task="Nothing happens."),
        live(folder, "moved", (png, png), (png, draw(60)), (png, draw(colour=(200, 30, 30)))),
        Replayed(make_report(pointed, name="pointed"), model),
        live(folder, "lost", (png, png), error=FAILURE),
    ]


async def names_shown(page: Page) -> list[str]:
    return await texts(page, "#rows tr:not([hidden]) button")


async def clip(page: Page) -> float:
    """Percent of the screen, from the left, that the replayed screen is cut off."""
    value = await page.evaluate("getComputedStyle(document.getElementById('replayed')).clipPath")
    return float(re.fullmatch(r"inset\(0(?:px)? 0(?:px)? 0(?:px)? ([\d.]+)(?:%|px)\)", value)[1])


async def colour_at(page: Page, x: float, y: float) -> tuple[int, ...]:
    """Of the page's pixel at a point of the screens, in CSS px of the recording."""
    box = await page.locator("#screens").bounding_box()
    shot = Image.open(io.BytesIO(await page.screenshot())).convert("RGB")
    at = (box["x"] + x * box["width"] / CSS[0], box["y"] + y * box["height"] / CSS[1])
    return shot.getpixel((round(at[0]), round(at[1])))


async def test_the_table_tells_what_each_replay_found(
    results: list[Replayed], tmp_path: Path, chromium: Browser
):
    path = tmp_path / "page.html"
    write_replay_page(path, results, title="Replays of today")
    async with opened(chromium, path) as page:
        assert await page.title() == "Replays of today"
        assert await texts(page, "#facts div") == ["the same\n1 of 4", "time\n5.00 s"]
        rows = [await texts(page, f"#rows tr:nth-child({n}) td") for n in range(1, 5)]
        assert [row[1] for row in rows] == [
            "✓ the same",
            "✗ different",
            "✗ different",
            "✗ error worker_lost",
        ]
        assert [row[2] for row in rows] == ["", "screen 2", "action", ""]
        assert [row[3] for row in rows] == ["2 of 2", "1 of 3", "0 of 1", "1 of 1"]
        assert rows[2][4:6] == ["200", "100 → 0"]
        assert await page.inner_text("#replay-name span") == "moved", "the first that differs"
        assert await texts(page, "#strip [aria-current] b") == ["1"], "where it differs first"
        await page.click("#rows tr:nth-child(4)")
        assert "error, step 1: the worker died" in await page.inner_text("#replay-whole")


async def test_the_slider_is_dragged_and_the_screens_are_cut_there(
    results: list[Replayed], tmp_path: Path, chromium: Browser
):
    path = tmp_path / "page.html"
    write_replay_page(path, results, title="t")
    async with opened(chromium, path, viewport={"width": 1400, "height": 1600}) as page:
        for box in ("see-regions", "see-marks", "see-actions"):
            await page.uncheck(f"#{box}")
        blue, ground = (30, 90, 200), (250, 250, 248)
        assert await clip(page) == 50
        # the button lay from 20 to 69, and lies from 60 to 109
        assert await colour_at(page, 30, 110) == blue, "recorded, left of the slider"
        assert await colour_at(page, 100, 110) == blue, "replayed, right of it"

        slider = await page.locator("#slider").bounding_box()
        middle = slider["y"] + slider["height"] / 2
        await page.mouse.move(slider["x"] + slider["width"] / 2, middle)
        await page.mouse.down()
        await page.mouse.move(slider["x"] + slider["width"] * 0.9, middle, steps=5)
        await page.mouse.up()
        dragged = await clip(page)
        assert 85 < dragged < 95
        assert await colour_at(page, 100, 110) == ground, "now the recorded one is here as well"

        screens = await page.locator("#screens").bounding_box()
        across, down = screens["x"], screens["y"] + screens["height"] / 3
        await page.mouse.move(across + dragged / 100 * screens["width"], down)
        await page.mouse.down()
        await page.mouse.move(across + 0.1 * screens["width"], down, steps=5)
        await page.mouse.up()
        assert 9 < await clip(page) < 11
        assert float(await page.input_value("#slider")) == pytest.approx(10, abs=1)
        divider = await page.locator("#divider").bounding_box()
        assert divider["x"] == pytest.approx(across + 0.1 * screens["width"], abs=3)
        assert await colour_at(page, 30, 110) == ground and await colour_at(page, 100, 110) == blue
        await page.keyboard.press(".")
        assert 14 < await clip(page) < 16


async def test_the_screens_side_by_side(results: list[Replayed], tmp_path: Path, chromium: Browser):
    path = tmp_path / "page.html"
    write_replay_page(path, results, title="t")
    async with opened(chromium, path) as page:
        await page.click("#view-side")
        left, right = [
            await page.locator(f"#{side} img.shot").bounding_box()
            for side in ("recorded", "replayed")
        ]
        assert left["x"] + left["width"] < right["x"] and left["y"] == right["y"]
        assert left["width"] / left["height"] == pytest.approx(160 / 210, rel=0.02)
        assert await page.is_hidden("#slider") and await page.is_hidden("#divider")
        assert await page.evaluate("document.getElementById('replayed').style.clipPath") == ""
        sources = [
            await page.get_attribute(f"#{side} img.shot", "src")
            for side in ("recorded", "replayed")
        ]
        pngs = [base64.b64decode(source.split(",")[1]) for source in sources]
        assert pngs == [draw(), draw(60)]
        await page.keyboard.press("v")
        assert await page.is_visible("#slider")


async def test_regions_pixels_and_actions_are_drawn_where_they_are(
    results: list[Replayed], tmp_path: Path, chromium: Browser
):
    path = tmp_path / "page.html"
    write_replay_page(path, results, title="t")
    async with opened(chromium, path) as page:

        async def box(selector: str) -> list[float]:
            """In CSS px of the recording."""
            screens = await page.locator("#screens").bounding_box()
            found = await page.locator(selector).bounding_box()
            scale = screens["width"] / CSS[0]
            at = [found["x"] - screens["x"], found["y"] - screens["y"]]
            return [side / scale for side in (*at, found["width"], found["height"])]

        assert "moved by (40, 0) px" in await page.inner_text("#details")
        assert await box("#over .recorded .region") == pytest.approx([20, 100, 50, 20], abs=2)
        assert await box("#over .replayed .region") == pytest.approx([60, 100, 50, 20], abs=2)
        assert (await box("#over .recorded .dot"))[:2] == pytest.approx([30, 110], abs=2)
        assert await box("#over .marks") == pytest.approx([0, 0, 160, 210], abs=1)
        await page.keyboard.press("r")
        await page.keyboard.press("x")
        assert await page.locator("#over .region").count() == 0
        assert await page.is_hidden("#over .marks")
        await page.keyboard.press("a")
        assert await page.locator("#over .dot").count() == 0
        await page.keyboard.press("End")
        await page.keyboard.press("r")
        assert await box("#over .replayed .region") == pytest.approx([20, 100, 50, 20], abs=2)
        assert await page.locator("#over .recorded .region").count() == 0
        await page.keyboard.press("v")
        assert await page.locator("#recorded .region").count() == 1, "outlined on both"

        await page.click("#rows tr:nth-child(3)")
        await page.keyboard.press("v")
        await page.keyboard.press("a")
        assert (await box("#over .recorded .dot"))[:2] == pytest.approx([40, 60], abs=2)
        assert (await box("#over .replayed .dot"))[:2] == pytest.approx([90, 60], abs=2)
        assert await texts(page, "#details .pair .mono") == ["click 40 60", "click 90 60"]


async def test_the_marked_pixels_are_those_that_the_expectations_leave(
    tmp_path: Path, chromium: Browser
):
    result = live(tmp_path / "r", "moved", (draw(), draw(60)))
    ignore = ScreenRule(ignore=(PageBox(x=0, y=0, width=80, height=210),))
    path = tmp_path / "page.html"

    async def marks_of(result: Replayed) -> np.ndarray:
        write_replay_page(path, [result], title="t")
        async with opened(chromium, path) as page:
            source = await page.get_attribute("#over .marks", "src")
        marks = Image.open(io.BytesIO(base64.b64decode(source.split(",")[1]))).convert("RGBA")
        return np.asarray(marks)[..., 3] > 0

    assert (await marks_of(result))[110, 25]
    expectations = Expectations(screens=ignore)
    asked = await marks_of(replace(result, expectations=expectations))
    assert not asked[:, :80].any() and asked[110, 80:110].all()
    save_expectations(result.recording.path, expectations)
    assert (await marks_of(result) == asked).all(), "the recording's own, unless others were asked"


async def test_recordings_are_filtered_by_kind_and_searched(
    results: list[Replayed], tmp_path: Path, chromium: Browser
):
    path = tmp_path / "page.html"
    write_replay_page(path, results, title="t")
    async with opened(chromium, path) as page:
        assert await texts(page, "#kind option") == [
            "all 4",
            "only different (3)",
            "only the same (1)",
            "errors (1)",
            "screen differs (1)",
            "action differs (1)",
        ]
        for kind, names in {
            "different": ["moved", "pointed", "lost"],
            "same": ["clean"],
            "error": ["lost"],
            "of screen": ["moved"],
            "of action": ["pointed"],
            "all": ["clean", "moved", "pointed", "lost"],
        }.items():
            await page.select_option("#kind", kind)
            assert await names_shown(page) == names
            assert await page.inner_text("#shown") == f"{len(names)} of 4 shown"
        for words, names in {
            "NOTHING happens": ["clean"],
            "moved by (40": ["moved"],
            "browser lost": ["lost"],
            "no such words": [],
            "": ["clean", "moved", "pointed", "lost"],
        }.items():
            await page.fill("#search", words)
            assert await names_shown(page) == names
            assert await page.is_visible("#none") is (names == [])
        await page.select_option("#kind", "different")
        await page.fill("#search", "o")
        assert await names_shown(page) == ["moved", "pointed", "lost"]
        await page.press("#search", "Enter")
        assert await page.evaluate("location.hash") == "#1.1", "nothing is sent, nothing is left"


async def test_keys_move_through_what_differs(
    results: list[Replayed], tmp_path: Path, chromium: Browser
):
    path = tmp_path / "page.html"
    write_replay_page(path, results, title="t")
    async with opened(chromium, path) as page:

        async def after(*keys: str) -> str:
            for key in keys:
                await page.keyboard.press(key)
            return await page.evaluate("location.hash")

        assert await after() == "#1.1"
        assert await after("ArrowLeft") == "#1.0"
        assert await after("d") == "#1.1" and await after("d") == "#1.2"
        assert await after("d") == "#2.0" and await after("d") == "#1.1", "round again"
        assert await after("p") == "#0.0" and await after("ArrowRight", "ArrowRight") == "#0.1"
        assert await after("n", "n", "n", "n") == "#3.0"
        await page.select_option("#kind", "of action")
        await page.evaluate("document.activeElement.blur()")
        assert await after("p") == "#2.0" and await after("p") == "#2.0", "hidden ones are left out"
        assert await after("/", "d", "n", "p") == "#2.0", "typed into the search"
        assert await page.input_value("#search") == "dnp"
        assert await after("Escape", "Control+ArrowLeft") == "#2.0"


async def test_steps_that_are_the_same_can_be_left_out(
    results: list[Replayed], tmp_path: Path, chromium: Browser
):
    path = tmp_path / "page.html"
    write_replay_page(path, results, title="t")
    async with opened(chromium, path) as page:
        assert await texts(page, "#strip .caption") == ["0\n✓ same", "1\n✗ screen", "2\n✗ screen"]
        await page.check("#only")
        assert await texts(page, "#strip .thumb:not([hidden]) b") == ["1", "2"]
        await page.keyboard.press("ArrowLeft")
        assert await texts(page, "#strip .thumb:not([hidden]) b") == ["0", "1", "2"], "one is seen"


async def test_kept_tokens_are_tinted_as_in_the_heat_map(tmp_path: Path, chromium: Browser):
    png = draw(ground=(255, 255, 255))
    # two columns, four rows: every pair of sent and live once, then nothing
    tokens = TokenMap(
        rows=4,
        columns=2,
        sent=base64.b64encode(bytes([0b11000000])).decode(),
        live=base64.b64encode(bytes([0b10100000])).decode(),
    )
    side = make_side(screenshot=sha(png), token_map=tokens)
    step = make_step_report(0, POINT, recorded=side, replayed=make_side(screenshot=sha(png)))
    result = Replayed(make_report(step), record(tmp_path / "r", "r", png))
    path = tmp_path / "page.html"
    write_replay_page(path, [result], title="t")
    async with opened(chromium, path, viewport={"width": 1400, "height": 1300}) as page:
        await page.evaluate("document.getElementById('slider').value = 100")
        await page.dispatch_event("#slider", "input")
        assert await page.is_hidden("#recorded .heat") and await page.is_hidden("#legend")
        await page.keyboard.press("a")
        await page.keyboard.press("k")
        assert (await page.inner_text("#legend")).startswith("green: sent in this turn")
        for index, key in enumerate([(True, True), (True, False), (False, True), (False, False)]):
            x, y = 40 + 80 * (index % 2), 15 + 52.5 * (index // 2)
            tint, share = TINTS[key]
            wanted = [round(255 * (1 - share) + each * share) for each in tint]
            assert await colour_at(page, x, y) == pytest.approx(wanted, abs=2)


async def test_bits_that_are_none_leave_the_step_to_be_seen(tmp_path: Path, chromium: Browser):
    png = draw(ground=(255, 255, 255))
    tokens = TokenMap(rows=4, columns=2, sent="no base64!", live="")
    side = make_side(screenshot=sha(png), token_map=tokens)
    step = make_step_report(0, POINT, recorded=side, replayed=make_side(screenshot=sha(png)))
    result = Replayed(make_report(step), record(tmp_path / "r", "r", png))
    path = tmp_path / "page.html"
    write_replay_page(path, [result], title="t")
    async with opened(chromium, path) as page:
        assert "action.point" in await page.inner_text("#details")
        assert await page.locator(".heat").count() == 1


async def test_a_recording_that_could_not_be_read_is_on_the_page(tmp_path: Path, chromium: Browser):
    error = RecordingError("own: meta.json: is damaged", hint="take it again")
    path = tmp_path / "page.html"
    report = unread_report("browser", "gui/own", error)
    write_replay_page(path, [Replayed(report, None)], title="t")
    async with opened(chromium, path) as page:
        assert "own: meta.json: is damaged" in await page.inner_text("body")


async def test_costs_are_shown_as_bars_of_both_sides(
    results: list[Replayed], tmp_path: Path, chromium: Browser
):
    path = tmp_path / "page.html"
    write_replay_page(path, results, title="t")
    async with opened(chromium, path) as page:
        await page.click("#rows tr:nth-child(3)")
        heads = [head.lower() for head in await texts(page, "#details h3")]
        assert heads[2:4] == ["prompt, recorded\n200 tokens", "prompt, replayed\n200 tokens"]
        bars = await page.eval_on_selector_all(
            "#details .bar",
            "bars => bars.map(b => [...b.children].map(i => [i.className, i.clientWidth]))",
        )
        (was_cached, was_computed), _, now, _ = bars
        assert (was_cached[0], was_computed[0]) == ("cached", "computed")
        assert was_cached[1] == pytest.approx(was_computed[1], rel=0.05)
        assert [name for name, _ in now] == ["computed"], "nothing is cached now"
        await page.click("#rows tr:nth-child(2)")
        assert await page.locator("#details .bar").count() == 0, "no model was asked"


async def test_nothing_hostile_runs(tmp_path: Path, chromium: Browser):
    png = draw()
    invalid = InvalidAction(text=ATTACK, reason=ATTACK)
    hostile = Difference(
        comparer="action",
        field=ATTACK,
        recorded=ATTACK,
        replayed={"box": [ATTACK, 1, 2, 3], ATTACK: ATTACK},
        message=ATTACK,
    )
    hostile = hostile.model_copy(update={"parts": [hostile]})
    recorded = make_side(screenshot=sha(png), text=ATTACK, action=Type(text=ATTACK))
    replayed = make_side(
        screenshot=sha(png), action=None, invalid=invalid, text=ATTACK, variables={ATTACK: ATTACK}
    )
    report = make_report(
        make_step_report(0, hostile, recorded=recorded, replayed=replayed),
        make_step_report(1, recorded=replayed, replayed=recorded),
        differences=[hostile],
        name=ATTACK,
        recording=ATTACK,
        task=ATTACK,
        program=ATTACK,
        notes=[ATTACK],
        settings={ATTACK: ATTACK},
        error=FAILURE.model_copy(update={"message": ATTACK, "hint": ATTACK, "code": ATTACK}),
    )
    result = Replayed(report, record(tmp_path / "r", "r", png, png))
    path = tmp_path / "page.html"
    write_replay_page(path, [result], title=ATTACK)
    async with opened(chromium, path) as page:
        for key in ("End", "v", "k", "Home", "v"):
            await page.keyboard.press(key)
            assert await page.evaluate("window.owned") is None
        assert await page.evaluate("document.getElementById('title').textContent") == ATTACK
        assert await page.evaluate("document.getElementById('replay-task').textContent") == ATTACK
        assert await page.locator("script").count() == 2
        assert await page.locator("style").count() == 1
        assert await page.locator("a, iframe, object, [onerror], [onload]").count() == 0
        assert await page.locator("#over .region").count() == 0, "a box of texts is no box"
    policy = re.search(r'Policy" content="([^"]+)"', path.read_text())[1]
    hashed = r"'sha256-[A-Za-z0-9+/]{43}='"
    assert re.fullmatch(
        rf"default-src 'none'; img-src data:; style-src {hashed}; script-src {hashed}; "
        "base-uri 'none'; form-action 'none'",
        policy,
    )


async def test_screens_of_what_differs_are_kept_when_the_page_is_full(
    results: list[Replayed], tmp_path: Path, chromium: Browser, monkeypatch
):
    other = live(tmp_path / "r", "same", *((draw(x), draw(x)) for x in range(5, 9)))
    room = len(draw()) + len(draw(60)) + len(draw(colour=(200, 30, 30))) + 2500
    monkeypatch.setattr("agentserve.replay.pages.replay.MAX_PICTURE_BYTES", room)
    path = tmp_path / "page.html"
    write_replay_page(path, [other, results[1]], title="t")
    assert path.stat().st_size < 4 * room + 60_000
    async with opened(chromium, path) as page:
        assert await page.locator("#recorded img.shot, #replayed img.shot").count() == 2
        await page.keyboard.press("p")
        await page.keyboard.press("End")
        left_out = await texts(page, "#screens .missing")
        assert left_out == ["Left out: the page's limit of pictures."] * 2


async def test_steps_without_screens_and_pages_without_replays(tmp_path: Path, chromium: Browser):
    step = make_step_report(
        0,
        POINT,
        recorded=make_side(action=Drag(x=1, y=2, to_x=30, to_y=40)),
        replayed=make_side(action=Hover(x=4, y=5), usage=Usage()),
    )
    recording = record(tmp_path / "r", "r", draw())
    path = tmp_path / "page.html"
    empty = Replayed(make_report(name="empty"), recording)
    write_replay_page(path, [Replayed(make_report(step), recording), empty], title="t")
    async with opened(chromium, path) as page:
        assert await texts(page, "#screens .missing") == ["No screen."] * 2
        assert await page.locator("#over .mark").count() == 2
        await page.keyboard.press("n")
        assert "Nothing was replayed." in await page.inner_text("#details")
        for key in ("ArrowRight", "d", "v", ".", "k"):
            await page.keyboard.press(key)
    write_replay_page(path, [], title="t")
    async with opened(chromium, path) as page:
        assert await page.is_visible("#empty") and await page.is_hidden("#replay")
        for key in ("ArrowRight", "n", "d", "v", "."):
            await page.keyboard.press(key)


async def test_the_page_fits_narrow_and_dark_screens(
    results: list[Replayed], tmp_path: Path, chromium: Browser
):
    path = tmp_path / "page.html"
    write_replay_page(path, results, title="t")
    grounds = set()
    for scheme in ("light", "dark"):
        narrow = {"width": 360, "height": 700}
        async with opened(chromium, path, viewport=narrow, color_scheme=scheme) as page:
            for view in ("v", "v"):
                assert await page.evaluate("document.documentElement.scrollWidth") <= 360
                await page.keyboard.press(view)
            grounds.add(await page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(grounds) == 2


async def test_a_damaged_screenshot_is_an_error(results: list[Replayed], tmp_path: Path):
    recording = results[1].recording
    name = recording.steps[0].screenshot
    (recording.path / "screenshots" / f"{name}.png").write_bytes(b"x")
    with pytest.raises(RecordingError, match=name):
        write_replay_page(tmp_path / "page.html", [replace(results[1], pictures={})], title="t")
    assert not (tmp_path / "page.html").exists()
