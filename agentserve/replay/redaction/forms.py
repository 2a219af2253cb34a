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
    # backslashes that are escaped once more double: any number that they may have become
    parts = re.findall(r"\\+|[^\\]", secret)
    plain = "".join(_backslashes(p) if p[0] == "\\" else _character(p) for p in parts)
    return "|".join([plain, *(_base64(piece) for piece in _base64_pieces(secret))])


def _character(character: str) -> str:
    escaped = [_percent(character), _units(character)]
    if character in _SHORT:
        escaped.append(rf"\\{{1,8}}{re.escape(_SHORT[character])}")
    names = [f"#0{{0,8}}{ord(character)}", f"#x0{{0,8}}{ord(character):x}"]
    if character in _ENTITIES:
        names.append(_ENTITIES[character])
    escaped.append(rf"&(?:amp;){{0,4}}(?:{'|'.join(names)});")
    forms = [re.escape(character), f"(?i:{'|'.join(escaped)})"]
    if character == " ":
        forms.append(r"\+")
    return f"(?:{'|'.join(forms)})"


def _backslashes(run: str) -> str:
    count = len(run)
    escaped = f"(?i:{_percent(run)}|{_units(run)})"
    return rf"(?:\\{{{count},{8 * count}}}|{escaped})"


def _percent(text: str) -> str:
    return "".join(rf"%(?:25){{0,4}}{byte:02x}" for byte in text.encode())


def _units(text: str) -> str:
    r"""As ``\u0041``; one above U+FFFF as two halves."""
    units = text.encode("utf-16-be")
    return "".join(rf"\\{{1,8}}u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


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
