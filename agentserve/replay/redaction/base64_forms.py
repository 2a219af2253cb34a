"""What stands in the base64 of any text with a secret in it, as regular expressions."""

from __future__ import annotations

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_FORMS = {"+": r"(?:\+|-|%2[bB])", "/": r"(?:\\{0,8}/|_|%2[fF])"}
"""Of the letters that URLs and JSON write otherwise."""


def base64_patterns(secret: str) -> list[str]:
    """One for each of the three places of a group at which the secret may begin.

    Its edges share letters with what is beside it: of those, each that has the secret's bits fits.
    All bits of the secret are thereby compared, and four bytes stand nowhere by chance.
    """
    return ["".join(_letter(each) for each in _letters(secret.encode(), n)) for n in range(3)]


def base64_beginnings(secret: str) -> set[str]:
    """The characters that such a text can begin with."""
    found: set[str] = set()
    for bytes_before in range(3):
        first = {_LETTERS[number] for number in _letters(secret.encode(), bytes_before)[0]}
        found |= first
        if first & set(_FORMS):
            found |= set("-_%\\")
    return found


def _letters(data: bytes, bytes_before: int) -> list[list[int]]:
    """Of each letter the numbers that it may have. A letter holds six bits, a byte eight."""
    bits = int.from_bytes(data, "big")
    start, end = 8 * bytes_before, 8 * (bytes_before + len(data))
    letters = []
    for at in range(start - start % 6, end, 6):
        first, last = max(at, start), min(at + 6, end)
        known = (bits >> (end - last)) & ((1 << (last - first)) - 1)
        behind = at + 6 - last
        letters.append(
            [
                before << (at + 6 - first) | known << behind | after
                for before in range(1 << (first - at))
                for after in range(1 << behind)
            ]
        )
    return letters


def _letter(numbers: list[int]) -> str:
    letters = [_LETTERS[number] for number in numbers]
    odd = [_FORMS[letter] for letter in letters if letter in _FORMS]
    plain = "".join(letter for letter in letters if letter not in _FORMS)
    if len(letters) == 1:
        return odd[0] if odd else plain
    return f"(?:{'|'.join([f'[{plain}]', *odd])})" if odd else f"[{plain}]"
