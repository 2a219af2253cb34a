"""How much a JSON text would be in memory, told from its bytes: before anything is parsed."""

from __future__ import annotations

import re

_CONTAINER = 4
"""What an object or a list weighs; any other value weighs 1, which is about 60 bytes."""
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?+'
# Up to what begins or separates values: a key and a string may come before it. A third string is no
# JSON, and there the parser ends. Possessive, with the text's end found as well: nothing is looked
# at twice, whatever the text is.
_NEXT = re.compile(rb'[^"\[{,]*+(?:%b[^"\[{,]*+){0,2}+(?:([\[{])|[,"]|\Z)' % _STRING, re.DOTALL)


def weight_of(data: bytes, most: int) -> int:
    """The weight of all values in a JSON text, at least; of one that weighs more than ``most``,
    something above that. What stands in strings weighs nothing: it is no larger than the text."""
    weight = 0
    for found in _NEXT.finditer(data):
        weight += _CONTAINER if found.lastindex else 1
        if weight > most:
            break
    return weight
