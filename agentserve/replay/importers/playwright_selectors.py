"""Selectors as Playwright writes them, in traces and in codegen's JSONL, as ours.

Parts are joined by ``>>``; each begins with its engine's name, as in
``internal:role=button[name="Save"i]``. Playwright documents its engines
(playwright.dev/docs/other-locators), but not the internal ones: those are as version 1.65 writes
them. What has no equal here gives no chain, rather than a looser one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import NamedTuple

from pydantic import ValidationError

from agentserve.core.elements import Selector

MAX_CHARS = 4000

_ENGINE = re.compile(r"^([a-zA-Z_0-9\-+:*]+)\s*=", re.ASCII)
_XPATH = re.compile(r"^\(*//|^\.\.")
_ATTRIBUTE = re.compile(r'^\[([a-zA-Z_][\w\-]*)="((?:[^"\\]|\\.)*)"([isIS]?)\]$', re.ASCII)
_ROLE = re.compile(r'^([a-z]+)(?:\[name="((?:[^"\\]|\\.)*)"([isIS]?)\])?$', re.ASCII)
_QUOTED = re.compile(r'^("(?:[^"\\]|\\.)*")([is]?)$')
_NOT_CSS = re.compile(
    r":(?:has-text|text|text-is|text-matches|visible|light|nth-match|above|below|near|right-of|left-of)\b"
)
_OLD_TEST_IDS = ("data-testid", "data-test-id", "data-test")
_BARE_TEXT = re.compile(r"\s*text\s*=.")
"""In it a quote is a character as any other."""
_FRAME = "internal:control"


class _Part(NamedTuple):
    engine: str
    body: str


def chain_of(text: str) -> tuple[Selector, ...] | None:
    """The chain that a selector is; None when something in it has no equal."""
    if len(text) > MAX_CHARS:
        return None
    chain: list[Selector] = []
    try:
        for engine, body in map(_part, _split(text)):
            if (engine, body) == (_FRAME, "enter-frame") and chain:
                continue  # a chain goes into a frame by itself
            if engine == "internal:describe":
                continue  # a name for people
            if engine == "nth" and chain and chain[-1].nth is None:
                chain[-1] = Selector(**{**chain[-1].model_dump(), "nth": int(body)})
                continue
            read = _READERS.get(engine)
            selector = read(body) if read else None
            if selector is None:
                return None
            chain.append(selector)
    except (ValidationError, ValueError):  # too long for ours, or not as Playwright writes them
        return None
    return tuple(chain) if 0 < len(chain) <= 16 else None


def _split(text: str) -> list[str]:
    """The parts between ``>>``, but for those in quotes."""
    parts, start, at, quote = [], 0, 0, ""
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 2
            continue
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'`" and not _BARE_TEXT.match(text, start, at):
            quote = char
        elif text.startswith(">>", at):
            parts.append(text[start:at].strip())
            at += 2
            start = at
            continue
        at += 1
    return [*parts, text[start:].strip()]


def _part(text: str) -> _Part:
    named = _ENGINE.match(text)
    if named:
        return _Part(named.group(1), text[named.end() :])
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return _Part("text", text)
    return _Part("xpath" if _XPATH.match(text) else "css", text)


def _css(body: str) -> Selector | None:
    if _NOT_CSS.search(body):
        return None
    return Selector(engine="css", value=body.strip())


def _xpath(body: str) -> Selector:
    return Selector(engine="xpath", value=body.strip())


def _text(body: str) -> Selector | None:
    body = body.strip()
    if _is_pattern(body):
        return None
    if len(body) > 1 and body[0] == body[-1] and body[0] in "\"'":
        return Selector(engine="text", value=_unescaped(body[1:-1]))
    return Selector(engine="text", value=body, exact=False)


def _internal_text(body: str) -> Selector | None:
    quoted = _QUOTED.match(body)
    if quoted is None:
        return None
    return Selector(engine="text", value=json.loads(quoted.group(1)), exact=quoted.group(2) != "i")


def _label(body: str) -> Selector | None:
    quoted = _QUOTED.match(body)
    if quoted is None:
        return None
    return Selector(engine="aria", value=json.loads(quoted.group(1)), exact=quoted.group(2) != "i")


def _role(body: str) -> Selector | None:
    found = _ROLE.match(body)
    if found is None:  # states as [checked], patterns as [name=/…/]
        return None
    role, name, case = found.groups()
    value = "" if name is None else _unescaped(name)
    return Selector(engine="aria", value=value, role=role, exact=(case or "").lower() != "i")


def _test_id(body: str) -> Selector | None:
    found = _ATTRIBUTE.match(body)
    if found is None:
        return None
    attribute, value, _ = found.groups()
    if attribute == "data-testid":
        return Selector(engine="test_id", value=_unescaped(value))
    return _attribute_css(attribute, _unescaped(value), exact=True)


def _attribute(body: str) -> Selector | None:
    found = _ATTRIBUTE.match(body)
    if found is None:
        return None
    attribute, value, case = found.groups()
    return _attribute_css(attribute, _unescaped(value), exact=case.lower() != "i")


def _named(attribute: str) -> Callable[[str], Selector | None]:
    return lambda body: _attribute_css(attribute, body.strip().strip("\"'"), exact=True)


def _attribute_css(attribute: str, value: str, *, exact: bool) -> Selector:
    """An attribute that is the value, or has it in it in any case."""
    text = f'"{css_string(value)}"'
    test = f"[{attribute}={text}]" if exact else f"[{attribute}*={text} i]"
    return Selector(engine="css", value=test)


def css_string(text: str) -> str:
    """What stands between double quotes in CSS, so that it stays one string."""
    return re.sub(r'["\\\x00-\x1f\x7f]', lambda char: f"\\{ord(char.group()):x} ", text)


def _is_pattern(body: str) -> bool:
    return len(body) > 1 and body[0] == "/" and "/" in body[1:]


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)


_READERS: dict[str, Callable[[str], Selector | None]] = {
    "css": _css,
    "xpath": _xpath,
    "text": _text,
    "id": _named("id"),
    "internal:text": _internal_text,
    "internal:label": _label,
    "internal:role": _role,
    "internal:testid": _test_id,
    "internal:attr": _attribute,
    **{name: _named(name) for name in _OLD_TEST_IDS},
}
