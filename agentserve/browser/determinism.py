"""Makes pages show the same each time they are opened.

What is always done, recording or not: one set of flags for Chromium (launch.py), a fixed locale,
time zone and colour scheme, reduced motion, an invisible caret, fonts waited for, and screenshots
whose animations are at their end. What changes how a page behaves is done when its
core.pages.PageSettings say so.
"""

from __future__ import annotations

import json
from pathlib import Path

from playwright.async_api import BrowserContext

from agentserve.core.pages import PageSettings

_SEEDED = (Path(__file__).parent / "scripts" / "seeded.js").read_text(encoding="utf-8")

# A style sheet that is in no DOM tree: Playwright's own ways (caret="hide", style=) edit elements,
# which pages and recordings of them can see.
_ADOPT = """(() => {{
  const sheet = new CSSStyleSheet();
  sheet.replaceSync({rules});
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
}})()"""
_HIDE_CARET = "* { caret-color: transparent !important }"
# At their end at once, and without a delay: what a page does when they end, it still does.
_NO_ANIMATIONS = (
    "*, ::before, ::after { animation-duration: 0s !important; animation-delay: 0s !important; "
    "animation-iteration-count: 1 !important; "
    "transition-duration: 0s !important; transition-delay: 0s !important; "
    "scroll-behavior: auto !important }"
)


async def hide_caret(context: BrowserContext) -> None:
    """In every page that the context loads from now on, without a trace in its DOM."""
    await context.add_init_script(_ADOPT.format(rules=json.dumps(_HIDE_CARET)))


async def make_same(context: BrowserContext, settings: PageSettings) -> None:
    """Apply the settings to every page that the context loads from now on.

    The clock: ``Date`` stands still at ``fixed_time``; timers, animation frames and
    ``performance.now`` go on. Randomness begins anew in each document. ``fonts_awaited`` asks for
    nothing: settling waits for fonts in any case. ``network`` is network.py's.
    """
    if settings.fixed_time is not None:
        await context.clock.set_fixed_time(settings.fixed_time)
    if settings.random_seed is not None:
        await context.add_init_script(f"({_SEEDED})({settings.random_seed})")
    if not settings.animations:
        await context.add_init_script(_ADOPT.format(rules=json.dumps(_NO_ANIMATIONS)))
