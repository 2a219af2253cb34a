"""Flows as Chrome's Recorder exports them, written from the published schema
(github.com/puppeteer/replay, src/Schema.ts), and a check of what that schema demands."""

from __future__ import annotations

from typing import Any

Flow = dict[str, Any]


def every_step(base: str = "http://127.0.0.1:8000") -> Flow:
    """A flow with every type of step and every field."""
    mouse = {"deviceType": "mouse", "button": "primary"}
    email = [
        ["aria/E-mail"],
        ["#email"],
        ['xpath///*[@id="email"]'],
        ["pierce/#email"],
        ["text/Your e-mail"],
        ['aria/[role="textbox"]'],
    ]
    return {
        "title": "Sign in",
        "timeout": 4000,
        "selectorAttribute": "data-testid",
        "steps": [
            {
                "type": "setViewport",
                "width": 1120,
                "height": 672,
                "deviceScaleFactor": 1,
                "isMobile": False,
                "hasTouch": False,
                "isLandscape": True,
            },
            {
                "type": "navigate",
                "url": f"{base}/login.html",
                "assertedEvents": [
                    {"type": "navigation", "url": f"{base}/login.html", "title": "Login"}
                ],
            },
            {
                "type": "click",
                "target": "main",
                "selectors": email,
                "offsetX": 40.5,
                "offsetY": 7,
                "duration": 120,
                **mouse,
            },
            {"type": "change", "target": "main", "selectors": email, "value": "ada@example.com"},
            {"type": "keyDown", "target": "main", "key": "Control"},
            {"type": "keyDown", "target": "main", "key": "a"},
            {"type": "keyUp", "target": "main", "key": "a"},
            {"type": "keyUp", "target": "main", "key": "Control"},
            {"type": "keyDown", "target": "main", "key": "Tab"},
            {"type": "keyUp", "target": "main", "key": "Tab"},
            {"type": "keyDown", "target": "main", "key": "Shift"},
            {"type": "keyDown", "target": "main", "key": "A"},
            {"type": "keyUp", "target": "main", "key": "A"},
            {"type": "keyUp", "target": "main", "key": "Shift"},
            {
                "type": "doubleClick",
                "target": "main",
                "frame": [0, 2],
                "selectors": [["#outer", "#inner"], 'aria/Sign in[role="button"]'],
                "offsetX": 1,
                "offsetY": 2,
                "deviceType": "touch",
                "button": "secondary",
            },
            {"type": "hover", "target": "main", "selectors": [["#menu"]], "timeout": 1000},
            {"type": "scroll", "target": "main", "x": 0, "y": 250.5},
            {"type": "scroll", "target": "main", "selectors": [["#list"]], "x": 3, "y": 4},
            {
                "type": "waitForElement",
                "selectors": [["#rows"]],
                "operator": ">=",
                "count": 3,
                "visible": True,
            },
            {"type": "waitForElement", "selectors": [["#gone"]], "operator": "==", "count": 0},
            {"type": "waitForElement", "selectors": [["#few"]], "operator": "<=", "count": 2},
            {"type": "waitForExpression", "expression": "document.readyState === 'complete'"},
            {
                "type": "emulateNetworkConditions",
                "target": "main",
                "download": 50000,
                "upload": 50000,
                "latency": 2000,
            },
            {"type": "customStep", "name": "lighthouse", "parameters": {"mode": "snapshot"}},
            {
                "type": "click",
                "target": f"{base}/help.html",
                "selectors": [["#close"]],
                "offsetX": 5,
                "offsetY": 5,
                "button": "back",
                "deviceType": "mouse",
                "assertedEvents": [{"type": "navigation", "url": f"{base}/tables.html"}],
            },
            {"type": "close", "target": f"{base}/help.html"},
        ],
    }


_NUMBERS = {
    "setViewport": ("width", "height", "deviceScaleFactor"),
    "emulateNetworkConditions": ("download", "upload", "latency"),
    "click": ("offsetX", "offsetY"),
    "doubleClick": ("offsetX", "offsetY"),
}
_TEXTS = {
    "navigate": ("url",),
    "change": ("value",),
    "keyDown": ("key",),
    "keyUp": ("key",),
    "waitForExpression": ("expression",),
    "customStep": ("name",),
}
_SELECTED = ("click", "doubleClick", "hover", "change", "waitForElement")
_OTHERS = ("scroll", "close")
_BUTTONS = ("primary", "auxiliary", "secondary", "back", "forward")


def check_flow(flow: Flow) -> None:
    """What @puppeteer/replay's ``parse`` demands of a flow (src/SchemaUtils.ts)."""
    assert isinstance(flow["title"], str)
    for step in flow["steps"]:
        kind = step["type"]
        assert kind in {*_NUMBERS, *_TEXTS, *_SELECTED, *_OTHERS}, kind
        for name in _NUMBERS.get(kind, ()):
            assert isinstance(step[name], int | float) and not isinstance(step[name], bool)
        for name in _TEXTS.get(kind, ()):
            assert isinstance(step[name], str)
        if kind in _SELECTED:
            assert step["selectors"]
        for selector in step.get("selectors", ()):
            parts = [selector] if isinstance(selector, str) else selector
            assert parts and all(isinstance(part, str) for part in parts)
        if kind in ("click", "doubleClick"):
            assert step["deviceType"] in ("mouse", "pen", "touch")
            assert step["button"] in _BUTTONS
        if kind == "setViewport":
            assert all(type(step[name]) is bool for name in ("isMobile", "hasTouch", "isLandscape"))
        if "timeout" in step:
            assert 1 <= step["timeout"] <= 30_000
