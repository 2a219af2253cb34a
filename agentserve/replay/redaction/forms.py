"""The ways in which a secret is written: as it is, in a URL, in JSON, in HTML, in base64.

One regular expression finds all of them, also where they are mixed (a browser escapes other
characters of a URL than Python does) or nested (JSON in JSON, a URL in a URL).
"""

from __future__ import annotations

import base64
import re

_SHORT = {'"': '"', "/": "/", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t", "'": "'"}
_ENTITIES = {'"': "quot", "&": "amp", "<": "lt", ">": "gt", "'": "apos", "\xa0": "nbsp"}
_MIN_BASE64 = 10
"""Shorter pieces of base64 stand in other texts by chance."""


def pattern_of(secret: str) -> str:
    """A regular expression without groups of its own; case matters but in escapes."""
    parts = re.findall(r"\\+|[^\\]", secret)
    plain = "".join(
        _backslashes(part) if part[0] == "\\" else _character(part, before[:1] == "\\")
        for before, part in zip(["", *parts], parts, strict=False)
    )
    return "|".join([plain, *(_base64(piece) for piece in _base64_pieces(secret))])


def _character(character: str, behind_backslashes: bool) -> str:
    # those in front have taken all the backslashes there are
    escape = "" if behind_backslashes else r"\\{1,8}+"
    escaped = [_percent(character), _units(character, escape), _entity(character)]
    if character in _SHORT:
        short = _SHORT[character]
        escaped.append(f"{escape}(?:{re.escape(short)}|{_entity(short)})")
    # what is longer comes first: an escaped % begins with one
    forms = [f"(?i:{'|'.join(escaped)})", re.escape(character)]
    if character == " ":
        forms.append(r"\+")
    return f"(?:{'|'.join(forms)})"


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


def _units(text: str, escape: str = r"\\{1,8}+") -> str:
    r"""As ``\u0041``; one above U+FFFF as two halves."""
    units = text.encode("utf-16-be")
    first, *rest = (units[i : i + 2].hex() for i in range(0, len(units), 2))
    return f"{escape}u{first}" + "".join(rf"\\{{1,8}}+u{each}" for each in rest)


def _base64_pieces(secret: str) -> list[str]:
    """What stands in the base64 of any text with the secret in it: it begins at one of three
    places of a group, and its edges are mixed with what is beside it."""
    data, pieces = secret.encode(), []
    for before in range(3):
        text = base64.b64encode(bytes(before) + data).decode()
        first, last = -(-before * 8 // 6), (before + len(data)) * 8 // 6
        pieces.append(text[first:last])
    return [piece for piece in pieces if len(piece) >= _MIN_BASE64]


def _base64(piece: str) -> str:
    forms = {"+": r"(?:\+|-|%2[bB])", "/": r"(?:\\{0,8}/|_|%2[fF])"}
    return "".join(forms.get(c, c) for c in piece)
