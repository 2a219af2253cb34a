"""Seeded style sheets, so that a model does not learn one font, one size and one colour scheme."""

from __future__ import annotations

import random
import subprocess
from functools import cache

_FALLBACK = ("sans-serif", "serif", "monospace")
_DARK = ("#000", "#222", "#333", "#1a1a40", "#402020", "#103010", "#444")
_LIGHT = ("#fff", "#fff", "#fafafa", "#f4f4f0", "#eef3ff", "#fff4e6", "#eefaee", "#f3eefa", "#ddd")
_QUERY = ("#ff0", "#ff0", "#ffc", "#cff", "#fdd", "#eee", "#fff")
_LINKS = ("#00e", "#06c", "#084", "#a00", "#808", "#036")


@cache
def font_families() -> tuple[str, ...]:
    """The font families of this machine, by fontconfig, and the generic ones."""
    try:
        told = subprocess.run(
            ["fc-list", ":lang=en", "family"], capture_output=True, text=True, timeout=20
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        told = ""
    named = {line.split(",")[0].strip() for line in told.splitlines()}
    # of a mathematical font the letters are drawn in another way than their box says
    usable = sorted(name for name in named if name and "Math" not in name)
    return (*usable, *_FALLBACK)


def style_sheet(chance: random.Random, families: tuple[str, ...]) -> str:
    """CSS for one MiniWoB++ screen; the same ``chance`` gives the same sheet."""
    dark = chance.random() < 0.12
    paper = chance.choice(_DARK if dark else _LIGHT)
    ink = chance.choice(_LIGHT if dark else _DARK)
    family = chance.choice(families)
    zoom = chance.uniform(0.85, 1.3)
    base, control = 10 * zoom, 13.333 * zoom
    spacing = chance.choice((0, 0, 0, 0.3, 0.6, -0.2))
    left, top = chance.randint(0, 12), chance.randint(0, 16)
    query = chance.choice(_QUERY)
    rules = [
        f"#wrap, #area {{ background-color: {paper}; color: {ink}; }}",
        f"#wrap {{ overflow: hidden; font-family: '{family}', sans-serif; }}"
        if family not in _FALLBACK
        else f"#wrap {{ overflow: hidden; font-family: {family}; }}",
        f"#area {{ font-size: {base:.2f}px; letter-spacing: {spacing}px;"
        f" padding: {2 + top}px 2px 2px {2 + left}px; }}",
        f"#query {{ background-color: {query}; color: #000;"
        f" font-size: {chance.uniform(9, 11.5):.2f}px; }}",
        "#area button, #area input, #area select, #area textarea"
        f" {{ font-family: inherit; font-size: {control:.2f}px; letter-spacing: inherit; }}",
        f".alink, #area a, #wrap .alink {{ color: {'#8cf' if dark else chance.choice(_LINKS)}; }}",
    ]
    if chance.random() < 0.6:
        rules.append(_button_rule(chance))
    return "\n".join(rules)


def _button_rule(chance: random.Random) -> str:
    dark = chance.random() < 0.3
    face = chance.choice(("#06c", "#333", "#070", "#a22") if dark else ("#eee", "#fff", "#def"))
    return (
        f"#wrap button, #wrap input[type=button], #wrap input[type=submit] {{"
        f" background: {face}; color: {'#fff' if dark else chance.choice(_DARK)};"
        f" border: {chance.choice((1, 1, 2))}px solid {chance.choice(('#888', '#444', '#bbb'))};"
        f" border-radius: {chance.choice((0, 2, 4, 8))}px;"
        f" padding: {chance.randint(0, 4)}px {chance.randint(2, 9)}px; }}"
    )
