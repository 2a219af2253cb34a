import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.async_api import Browser
from replay.pages.opening import ATTACK, opened, texts
from replay.replay_builders import (
    DONE,
    SPACE,
    make_png,
    make_result,
    make_session,
    make_step,
    make_steps,
    make_usage,
    record,
)

from agentserve.core.actions import Click, DoubleClick, Drag, Hover, Scroll, Type
from agentserve.core.actions.recorded import Fill
from agentserve.core.errors import RecordingError
from agentserve.core.runs import RunSummary
from agentserve.core.sessions import InvalidAction, Outcome, Timings, WorkerRef
from agentserve.replay import (
    EndLine,
    Meta,
    Recording,
    RecordingWriter,
    RunView,
    ScenarioRef,
    StepLine,
    read_recording,
    run_row,
    write_run_page,
)


async def test_a_row_sums_a_run(recording: Recording, tmp_path: Path):
    assert run_row(RunView("click-button", recording)).model_dump() == {
        "name": "click-button",
        "recording": "clean",
        "task": "Click on the “Ok” button.",
        "success": True,
        "end": "done",
        "turns": 3,
        "prompt_tokens": 200 + 290 + 380,
        "cached_tokens": 0 + 110 + 200,
        "median_turn_ms": 311.5,
    }
    cut = await record(tmp_path, [])
    row = run_row(RunView("cut", read_recording(cut.folder)))
    assert (row.success, row.end, row.turns, row.median_turn_ms) == (None, None, 0, None)


async def test_the_page_shows_runs_steps_and_costs(
    recording: Recording, tmp_path: Path, chromium: Browser
):
    failed = await record(
        tmp_path,
        make_steps(2),
        end=RunSummary(session_id="s_x", end="max_turns", success=False, message="2 turns"),
        session=make_session(task="Another task."),
    )
    path = tmp_path / "page.html"
    runs = [RunView("first", recording), RunView("second", read_recording(failed.folder))]
    write_run_page(path, runs, title="A demo", facts=[("workers", "2")])

    async with opened(chromium, path) as page:
        assert await page.title() == "A demo"
        assert await texts(page, "#facts div") == ["workers\n2"]
        cells = await texts(page, "#rows tr:first-child td")
        assert cells[0] == "first\nClick on the “Ok” button."
        assert cells[1:4] == ["✓ success", "3", "870"]
        assert cells[4:] == ["310\n36 %", "312 ms"]
        assert (await texts(page, "#rows tr:nth-child(2) td"))[1] == "✗ failure"

        assert await texts(page, "#strip .caption") == ["0\nclick", "1\nclick", "2\nclick"]
        assert await texts(page, ".action") == ["click 40 60"]
        assert await page.inner_text("#address") == "http://127.0.0.1:8000/page?step=0"
        details = await page.inner_text("#details")
        assert "The button is there." in details
        for part in ("200 tokens", "cached 0", "prefilled 200", "visual 80", "text 120"):
            assert part in details
        for part in ("512 ms a step", "queue 2 ms", "program and model 300 ms", "browser 202 ms"):
            assert part in details
        sizes = await page.eval_on_selector_all(
            "#strip img", "images => images.map(i => [i.naturalWidth, i.naturalHeight])"
        )
        assert sizes == [[224, 280]] * 3

        await page.click("#rows tr:nth-child(2)")
        assert await page.inner_text("#run-task") == "Another task."
        assert "end: max_turns" in await page.inner_text("#run-facts")
        assert len(await texts(page, "#strip button")) == 2


async def test_the_bars_have_the_shares_of_the_counts(
    recording: Recording, tmp_path: Path, chromium: Browser
):
    path = tmp_path / "page.html"
    write_run_page(path, [RunView("run", recording)], title="t")
    async with opened(chromium, path) as page:
        await page.keyboard.press("End")
        widths = await page.eval_on_selector_all(
            "#details .panel:nth-child(3) .bar i",
            "parts => parts.map(p => [p.className, p.getBoundingClientRect().width])",
        )
    assert [name for name, _ in widths] == ["cached", "computed", "visual", "words"]
    cached, computed, visual, words = (width for _, width in widths)
    assert cached / computed == pytest.approx(200 / 180, rel=0.02)
    assert visual / words == pytest.approx(240 / 140, rel=0.02)


async def test_keys_move_through_steps_and_runs(
    recording: Recording, tmp_path: Path, chromium: Browser
):
    path = tmp_path / "page.html"
    write_run_page(path, [RunView("a", recording), RunView("b", recording)], title="t")
    async with opened(chromium, path) as page:

        async def after(*keys: str) -> tuple[str, str, str]:
            for key in keys:
                await page.keyboard.press(key)
            current = "#strip [aria-current] b"
            return (
                await page.inner_text("#run-name span:first-child"),
                await page.inner_text(current),
                await page.evaluate("location.hash"),
            )

        assert await after() == ("a", "0", "#0.0")
        assert await after("ArrowRight") == ("a", "1", "#0.1")
        assert await after("ArrowRight", "ArrowRight", "ArrowRight") == ("a", "2", "#0.2")
        assert await after("ArrowLeft") == ("a", "1", "#0.1")
        assert await after("n") == ("b", "0", "#1.0")
        assert await after("End") == ("b", "2", "#1.2")
        assert await after("n") == ("b", "2", "#1.2")
        assert await after("p", "Home") == ("a", "0", "#0.0")
        assert await after("Control+ArrowRight") == ("a", "0", "#0.0")
        await page.click("#next")
        assert await after() == ("a", "1", "#0.1")
        await page.click("#strip button:nth-child(3)")
        assert await after() == ("a", "2", "#0.2")
        assert await page.is_disabled("#next")


MARKS = {
    "click": (Click(x=40, y=60), 1, 0),
    "double_click": (DoubleClick(x=40, y=60), 2, 0),
    "hover": (Hover(x=40, y=60), 1, 0),
    "drag": (Drag(x=40, y=60, to_x=120, to_y=150), 0, 1),
    "scroll": (Scroll(x=40, y=60, dy=100), 0, 1),
}


@pytest.mark.parametrize("kind", MARKS)
async def test_the_action_is_drawn_where_it_was(kind: str, tmp_path: Path, chromium: Browser):
    action, rings, arrows = MARKS[kind]
    png = make_png()
    result = make_result(0, png, action=action)
    recorder = await record(tmp_path, [(make_step(0, png, result=result), png)])
    path = tmp_path / "page.html"
    write_run_page(path, [RunView("run", read_recording(recorder.folder))], title="t")
    async with opened(chromium, path) as page:
        picture = await page.locator("#picture").bounding_box()
        dot = await page.locator("#overlay .dot").bounding_box()
        assert await page.locator("#overlay circle.mark").count() == rings
        assert await page.locator("#overlay path.mark").count() == arrows
        at = [
            (dot["x"] + dot["width"] / 2 - picture["x"]) / picture["width"],
            (dot["y"] + dot["height"] / 2 - picture["y"]) / picture["height"],
        ]
        assert at == pytest.approx([40.5 / 160, 60.5 / 210], abs=0.005)
        if kind == "drag":
            box = await page.locator("#overlay path.mark").bounding_box()
            right = (box["x"] + box["width"] - picture["x"]) / picture["width"]
            assert right == pytest.approx(120.5 / 160, abs=0.02)


async def test_actions_without_a_point_and_invalid_answers_are_told_in_words(
    tmp_path: Path, chromium: Browser
):
    invalid = InvalidAction(text="clack 3", reason="unknown action 'clack'")
    typed = make_step(0, make_png(0), result=make_result(action=Type(text="hi"), variables={}))
    clack = make_step(
        1,
        make_png(1),
        result=make_result(1, action=None, invalid=invalid),
        outcome=Outcome(status="invalid", message=invalid.reason),
    )
    recorder = await record(tmp_path, [(typed, make_png(0)), (clack, make_png(1))])
    path = tmp_path / "page.html"
    write_run_page(path, [RunView("run", read_recording(recorder.folder))], title="t")
    async with opened(chromium, path) as page:
        assert await texts(page, ".action") == ['type "hi"']
        assert await page.locator("#overlay *").count() == 0
        await page.keyboard.press("ArrowRight")
        panel = await page.inner_text("#details .panel:first-child")
        assert [line for line in panel.split("\n") if line] == [
            "Step 1",
            "no valid action",
            "unknown action 'clack'",
            "clack 3",
            "told of the last action",
            "ok clicked",
        ]
        assert await texts(page, "#strip .trouble .caption") == ["1\ninvalid"]


async def test_nothing_hostile_runs(tmp_path: Path, chromium: Browser):
    """Markup in every string that a model, a page or a recording can fill is shown as text."""
    png = make_png()
    invalid = make_result(
        1,
        action=None,
        invalid=InvalidAction(text=ATTACK, reason=ATTACK),
        text=ATTACK,
        variables={ATTACK: ATTACK},
        worker=WorkerRef(id=ATTACK, boot_id=ATTACK),
        move=ATTACK,
    )
    hostile = {
        "url": f"javascript:window.owned=4//{ATTACK}",
        "instruction": ATTACK,
        "outcome_sent": Outcome(status="failed", message=ATTACK),
        "outcome": Outcome(status="failed", message=ATTACK),
    }
    typed = make_result(0, png, action=Type(text=ATTACK), variables={}, text=ATTACK)
    recorder = await record(
        tmp_path,
        [
            (make_step(0, png, result=typed, **hostile), png),
            (make_step(1, png, result=invalid, **hostile), png),
        ],
        end=RunSummary(session_id=ATTACK, end="done", message=ATTACK),
        session=make_session(
            program=ATTACK[:100], task=ATTACK, model=ATTACK, metadata={"x": ATTACK}
        ),
        scenario=ScenarioRef(name=ATTACK, seed=1),
    )
    path = tmp_path / "page.html"
    run = RunView(ATTACK, read_recording(recorder.folder))
    write_run_page(path, [run], title=ATTACK, facts=[(ATTACK, ATTACK)])
    async with opened(chromium, path) as page:
        for key in ("End", "Home"):
            await page.keyboard.press(key)
            await page.wait_for_timeout(50)
            assert await page.evaluate("window.owned") is None
        shown = "document.getElementById('{}').textContent"
        for place in ("title", "run-task"):
            assert await page.evaluate(shown.format(place)) == ATTACK
        assert await page.evaluate(shown.format("address")) == hostile["url"]
        assert await page.locator("script").count() == 2
        assert await page.locator("style").count() == 1
        assert await page.locator("a, iframe, object, [onerror], [onload]").count() == 0


async def test_the_policy_stops_what_escaping_might_miss(
    recording: Recording, tmp_path: Path, chromium: Browser
):
    path = tmp_path / "page.html"
    write_run_page(path, [RunView("run", recording)], title="t")
    policy = re.search(r'Policy" content="([^"]+)"', path.read_text())[1]
    hashed = r"'sha256-[A-Za-z0-9+/]{43}='"
    assert re.fullmatch(
        rf"default-src 'none'; img-src data:; style-src {hashed}; script-src {hashed}; "
        "base-uri 'none'; form-action 'none'",
        policy,
    )
    context = await chromium.new_context()
    try:
        page = await context.new_page()
        blocked: list[str] = []
        page.on("console", lambda message: blocked.append(message.text))
        await page.goto(path.as_uri())
        await page.evaluate(
            """() => {
                const script = document.createElement("script");
                script.textContent = "window.owned = 1";
                document.body.append(script);
                const image = document.createElement("img");
                image.src = "http://127.0.0.1:9/x.png";
                document.body.append(image);
            }"""
        )
        await page.wait_for_timeout(100)
        assert await page.evaluate("window.owned") is None
        assert len(blocked) == 2 and all("Content Security Policy" in text for text in blocked)
    finally:
        await context.close()


async def test_the_page_fits_narrow_and_dark_screens(
    recording: Recording, tmp_path: Path, chromium: Browser
):
    path = tmp_path / "page.html"
    write_run_page(path, [RunView("run", recording)], title="t")
    grounds = set()
    for scheme in ("light", "dark"):
        narrow = {"width": 360, "height": 700}
        async with opened(chromium, path, viewport=narrow, color_scheme=scheme) as page:
            assert await page.evaluate("document.documentElement.scrollWidth") <= 360
            box = await page.locator("#picture").bounding_box()
            assert 0 <= box["x"] and box["x"] + box["width"] <= 360
            assert box["width"] / box["height"] == pytest.approx(224 / 280, rel=0.02)
            grounds.add(await page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(grounds) == 2


async def test_equal_pictures_are_embedded_once(tmp_path: Path):
    png = make_png()
    recorder = await record(tmp_path, [(make_step(i, png), png) for i in range(5)])
    run = RunView("run", read_recording(recorder.folder))
    path = tmp_path / "page.html"
    write_run_page(path, [run, run], title="t")
    assert path.read_text().count("data:image/png;base64,") == 1


async def test_pictures_over_the_limit_are_left_out_and_named(
    recording: Recording, tmp_path: Path, chromium: Browser, monkeypatch
):
    monkeypatch.setattr("agentserve.replay.pages.run.MAX_PICTURE_BYTES", len(make_png()) + 10)
    path = tmp_path / "page.html"
    write_run_page(path, [RunView("run", recording)], title="t")
    async with opened(chromium, path) as page:
        assert await page.locator("#strip img").count() == 1
        assert await page.locator("#strip .missing").count() == 2
        await page.keyboard.press("End")
        assert await page.is_hidden("#picture")
        left_out = await page.evaluate(
            "getComputedStyle(document.getElementById('screen'), '::before').content"
        )
        assert "Screenshot left out" in left_out


async def test_runs_without_steps_and_pages_without_runs(tmp_path: Path, chromium: Browser):
    recorder = await record(tmp_path, [], end=DONE)
    path = tmp_path / "page.html"
    write_run_page(path, [RunView("none", read_recording(recorder.folder))], title="t")
    async with opened(chromium, path) as page:
        assert "This run has no step." in await page.inner_text("#details")
        await page.keyboard.press("ArrowRight")
    write_run_page(path, [], title="t")
    async with opened(chromium, path) as page:
        assert await page.is_visible("#empty") and await page.is_hidden("#run")


async def test_a_page_that_cannot_be_written_is_an_error(recording: Recording, tmp_path: Path):
    with pytest.raises(RecordingError, match="cannot write the page"):
        write_run_page(tmp_path / "no" / "page.html", [RunView("r", recording)], title="t")
    sha = recording.steps[0].screenshot
    (recording.path / "screenshots" / f"{sha}.png").write_bytes(b"x")
    with pytest.raises(RecordingError, match=sha):
        write_run_page(tmp_path / "page.html", [RunView("r", recording)], title="t")
    assert not (tmp_path / "page.html").exists()


async def test_the_data_block_is_json_without_markup(recording: Recording, tmp_path: Path):
    path = tmp_path / "page.html"
    write_run_page(path, [RunView("<b>&", recording)], title="t")
    block = re.search(r'id="data">(.*?)</script>', path.read_text(), re.DOTALL)[1]
    assert not set("<>&") & set(block)
    data = json.loads(block)
    assert data["runs"][0]["row"]["name"] == "<b>&"
    assert data["runs"][0]["css"] == [SPACE.css.width, SPACE.css.height]
    usage = make_usage(1).model_dump(exclude={"calls"})
    assert data["runs"][0]["steps"][1]["usage"] == usage
    assert data["runs"][0]["steps"][1]["timings"] == Timings(
        queue_ms=1.5, plan_ms=8.25, program_ms=300.0, total_ms=311.5
    ).model_dump(mode="json")


def of_a_person(folder: Path) -> Recording:
    """Two steps of a person, one without a screenshot."""
    png = make_png()
    meta = Meta(
        id="by-hand",
        created_at=datetime(2025, 11, 29, tzinfo=UTC),
        agentserve_version="0",
        source="person",
        task="Open the orders.",
        url="http://127.0.0.1/",
        viewport=SPACE.css,
    )
    writer = RecordingWriter(folder, meta)
    writer.append(
        StepLine(
            index=0,
            url="",
            screenshot=writer.add_screenshot(png),
            performed=Fill(value="Ann"),
            thought="The name goes here.",
            step_ms=80.0,
        )
    )
    writer.append(StepLine(index=1, url="", performed=Click(x=3, y=4)))
    writer.append(EndLine(end="closed", turns=2))
    return read_recording(writer.folder)


async def test_a_recording_that_no_agent_made_is_shown_as_far_as_it_goes(
    recording: Recording, tmp_path: Path, chromium: Browser
):
    path = tmp_path / "page.html"
    person = of_a_person(tmp_path / "recordings")
    write_run_page(path, [RunView("by hand", person), RunView("agent", recording)], title="t")
    async with opened(chromium, path) as page:
        assert (await page.inner_text("#run-facts")).startswith("recorded by a person")
        assert await texts(page, "#strip .caption") == ["0\nfill", "1\nclick"]
        assert await texts(page, ".action") == ['fill "Ann"']
        panels = await texts(page, "#details h3")
        assert [name.lower() for name in panels] == ["step 0", "beside it was written"]
        assert "The name goes here." in await page.inner_text("#details")
        assert await page.locator("#details .bar").count() == 0
        await page.keyboard.press("ArrowRight")
        assert await page.is_hidden("#picture")
        said = await page.evaluate(
            "getComputedStyle(document.getElementById('screen'), '::before').content"
        )
        assert "kept no screenshot" in said
        await page.keyboard.press("n")
        assert await page.locator("#details .bar").count() == 3
