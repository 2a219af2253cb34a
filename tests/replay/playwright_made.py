"""Recordings that the installed Playwright makes of the admin theme's pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, expect
from playwright.async_api import Error as PlaywrightError

PAGES = (
    Path(__file__).resolve().parents[2] / "scenarios/admin/node_modules/startbootstrap-sb-admin-2"
)
VIEWPORT = {"width": 1120, "height": 672}


async def make_trace(browser: Browser, base: str, path: Path) -> None:
    """A trace with a call of each kind; the last one fails."""
    context = await browser.new_context(viewport=VIEWPORT)
    await _stay_here(context, base)
    await context.tracing.start(screenshots=True, snapshots=True)
    page = await context.new_page()
    await page.goto(f"{base}/register.html")
    await page.get_by_placeholder("First Name").fill("Grace")
    await page.locator("#exampleLastName").click(position={"x": 5, "y": 6})
    await page.keyboard.type("Hopper")
    await page.keyboard.press("Tab")
    email = page.locator("#exampleInputEmail")
    await email.press_sequentially("g@b")
    await email.press("Control+a")
    await email.press("?")
    await page.mouse.move(10, 10)
    await page.mouse.down()
    await page.mouse.move(50, 60)
    await page.mouse.up()
    await page.mouse.dblclick(21, 22)
    await page.mouse.wheel(0, 100)
    link = page.get_by_role("link", name="Forgot Password?")
    await link.hover()
    await link.click()
    await page.wait_for_url("**/forgot-password.html")
    await page.go_back()
    await page.go_forward()
    await page.goto(f"{base}/tables.html")
    await page.locator("select").first.select_option("25")
    await page.get_by_label("Search:").fill("Edin")
    await page.evaluate("console.error('out of paper')")
    await page.set_viewport_size({"width": 1000, "height": 600})
    await page.goto(f"{base}/login.html")
    await page.get_by_text("Remember Me").check()
    await page.get_by_text("Remember Me").dblclick(modifiers=["Shift"])
    await email.drag_to(page.locator("#exampleInputPassword"))
    await email.focus()
    await page.keyboard.type("x")
    other = await context.new_page()
    await other.goto(f"{base}/forgot-password.html")
    await other.close()
    await expect(page.get_by_text("Welcome Back!")).to_be_visible()
    try:
        await page.locator("#nowhere").click(timeout=200)
    except PlaywrightError:
        pass
    await context.tracing.stop(path=path)
    await context.close()


class _Sink:
    """Takes the lines of Playwright's recorder, as codegen does."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def action_added(self, page: Page, data: Any, line: str) -> None:
        self.lines.append(line)

    def action_updated(self, page: Page, data: Any, line: str) -> None:
        self.lines[-1] = line

    def signal_added(self, page: Page, data: Any, line: str) -> None:
        self.lines[-1] = line or self.lines[-1]


async def make_codegen(browser: Browser, base: str, path: Path) -> None:
    """What ``playwright codegen --target jsonl`` writes of a visit, without its window."""
    context = await browser.new_context(viewport=VIEWPORT)
    await _stay_here(context, base)
    sink = _Sink()
    recorded = context._impl_obj  # codegen's window is a client of this, and has no other way
    await recorded._start_recording({"language": "jsonl"}, sink)
    page = await context.new_page()
    await page.goto(f"{base}/login.html")
    await _until(sink, page, "navigate")
    await page.locator("#exampleInputEmail").click()
    await page.keyboard.type("ada@example.com")
    await page.keyboard.press("Tab")
    await page.keyboard.type("secret")
    await page.locator("label", has_text="Remember Me").click()
    await _until(sink, page, "check")
    await page.get_by_text("Forgot Password?").click()
    await page.wait_for_url("**/forgot-password.html")
    await _until(sink, page, "Forgot Password?")
    await recorded._stop_recording()
    await context.close()
    header = {
        "browserName": "chromium",
        "launchOptions": {"headless": False},
        "contextOptions": {"viewport": VIEWPORT},
    }
    path.write_text("\n".join([json.dumps(header), *sink.lines]) + "\n")


async def _until(sink: _Sink, page: Page, word: str) -> None:
    """The recorder holds clicks back, to see whether another one follows."""
    for _ in range(1200):
        if any(word in line for line in sink.lines):
            return
        await page.wait_for_timeout(25)
    raise AssertionError(f"{word} was not recorded: {sink.lines}")


async def _stay_here(context: Any, base: str) -> None:
    """The theme's fonts and pictures elsewhere are not fetched."""
    await context.route(
        lambda url: not url.startswith(base), lambda route: route.abort("blockedbyclient")
    )
