"""The ways in which a secret is written: as it is, in a URL, in JSON, YAML, HTML, in base64.

One regular expression finds all of them, also where they are mixed (a browser escapes other
characters of a URL than Python does) or nested (JSON in JSON, a URL in a URL).
"""

from __future__ import annotations

import re

from agentserve.replay.redaction.base64_forms import base64_beginnings, base64_patterns

MIN_LENGTH = 4
"""Characters: shorter texts stand everywhere."""

_SHORT = {'"': '"', "/": "/", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t", "'": "'"}
_ENTITIES = {'"': "quot", "&": "amp", "<": "lt", ">": "gt", "'": "apos", "\xa0": "nbsp"}
_SPACES = r"\s\ufeff"
_MOST_SPACES = 64
"""In a run: a limit, or hostile text would make the search long."""
_PARTS = re.compile(rf"\\+|'+|[{_SPACES}]+|[^\\'{_SPACES}]")
_ESCAPE = r"\\{1,8}+"

# What is beside a text of its own: no letter and no digit, unless it ends an escape.
_ESCAPES = (r"%[0-9A-Fa-f]{2}", r"\\[nrtbf]", r"\\u[0-9A-Fa-f]{4}", r"\\x[0-9A-Fa-f]{2}")
_NOTHING_BEFORE = r"(?:(?<![^\W_])|" + "|".join(f"(?<={each})" for each in _ESCAPES) + ")"
_NOTHING_BEHIND = r"(?![^\W_])"


def pattern_of(secret: str, *, alone: bool = False) -> str:
    """A regular expression without groups of its own; case matters but in escapes.

    A browser squeezes white space and ends lines otherwise, and both ends of a text lose theirs:
    any of it stands for any other, where enough is left that stands nowhere else. ``alone``: only
    where no letter or digit is beside it.
    """
    loose = _is_loose(secret)
    plain = _plain(secret, loose)
    if loose:
        edge = rf"(?:{_spaces(_ESCAPE)}|\+){{0,{_MOST_SPACES}}}"
        inner = secret.lstrip()
        before = edge if inner != secret else ""
        # what follows a backslash may have lost its own to it
        core = inner if inner.rstrip().endswith("\\") else inner.rstrip()
        plain = before + _plain(core, loose) + (edge if core != inner else "")
    if alone:
        plain = f"{_NOTHING_BEFORE}(?:{plain}){_NOTHING_BEHIND}"
    return "|".join([plain, *_base64(secret)])


def beginnings_of(secret: str) -> str:
    """A regular expression for the one character with which any of its forms begins: what is
    nothing of the kind is passed over quickly."""
    first = {secret[0], *secret.strip()[:1], "%", "\\", "&", *base64_beginnings(secret)}
    spaces = f"{_SPACES}+" if secret[0].isspace() or secret[0] == "\ufeff" else ""
    return "[" + spaces + "".join(re.escape(each) for each in sorted(first)) + "]"


def _base64(secret: str) -> list[str]:
    return base64_patterns(secret) if len(secret.encode()) >= MIN_LENGTH else []


def _is_loose(secret: str) -> bool:
    return len(" ".join(secret.split())) >= MIN_LENGTH


def _plain(secret: str, loose: bool) -> str:
    parts = _PARTS.findall(secret)
    return "".join(
        _part(part, before[:1] == "\\", loose)
        for before, part in zip(["", *parts], parts, strict=False)
    )


def _part(part: str, behind_backslashes: bool, loose: bool) -> str:
    if part[0] == "\\":
        return _backslashes(part)
    # those in front have taken all the backslashes there are
    escape = "" if behind_backslashes else _ESCAPE
    each = _character(part[0], escape) + "".join(_character(c, _ESCAPE) for c in part[1:])
    if part[0] == "'":  # YAML doubles them
        return f"(?:'{{{2 * len(part)}}}|{each})"
    if loose and re.fullmatch(rf"[{_SPACES}]+", part):
        run = rf"{_spaces(escape)}{_spaces(_ESCAPE)}{{0,{_MOST_SPACES - 1}}}+"
        # a form's + is no white space among others: it may be the next character
        return rf"(?:{run}|{each}|\+{{1,{len(part)}}})"
    return each


def _character(character: str, escape: str) -> str:
    escaped = [_percent(character), _units(character, escape), _entity(character)]
    if character in _SHORT:
        short = _SHORT[character]
        escaped.append(f"{escape}(?:{re.escape(short)}|{_entity(short)})")
    # what is longer comes first: an escaped % begins with one
    forms = [f"(?i:{'|'.join(escaped)})", re.escape(character)]
    if character == " ":
        forms.append(r"\+")
    if character == "\n":  # as forms are posted
        forms.insert(0, r"(?i:%(?:25){0,4}0d%(?:25){0,4}0a)|\r\n")
    return f"(?:{'|'.join(forms)})"


def _spaces(escape: str) -> str:
    """One character of white space, in all its forms but a form's +."""
    forms = [
        r"%(?:25){0,4}(?:20|0[9a-d]|c2%(?:25){0,4}a0)",
        rf"{escape}(?:u(?:00(?:20|a0|0[9a-d])|feff)|x(?:20|a0|0[9a-d])|[nrtfv])",
        r"&(?:amp;){0,4}(?:#0{0,8}(?:9|1[0-3]|32|160)|#x0{0,8}(?:[9a-d]|20|a0)|nbsp);",
    ]
    return f"(?:(?i:{'|'.join(forms)})|[{_SPACES}])"


def _backslashes(run: str) -> str:
    """Each escape doubles them. As many as there are belong to the run: were it left open, hostile
    text would make the search try every way to share them."""
    count = len(run)
    escaped = (_percent(run), _units(run), rf"(?:{_entity(run[0])}){{{count},{8 * count}}}+")
    return rf"(?:\\{{{count},{8 * count}}}+|(?i:{'|'.join(escaped)}))"


def _entity(character: str) -> str:
    names = [f"#0{{0,8}}{ord(character)}", f"#x0{{0,8}}{ord(character):x}"]
    if character in _ENTITIES:
        names.append(_ENTITIES[character])
    return f"&(?:amp;){{0,4}}(?:{'|'.join(names)});"


def _percent(text: str) -> str:
    return "".join(rf"%(?:25){{0,4}}{byte:02x}" for byte in text.encode())


def _units(text: str, escape: str = _ESCAPE) -> str:
    r"""As ``\u0041`` or ``\x41``; one above U+FFFF as two halves."""
    units = text.encode("utf-16-be")
    first, *rest = (units[i : i + 2].hex() for i in range(0, len(units), 2))
    halves = f"{escape}u{first}" + "".join(rf"\\{{1,8}}+u{each}" for each in rest)
    if len(text) == 1 and ord(text) < 256:
        return f"{halves}|{escape}x{ord(text):02x}"
    return halves
