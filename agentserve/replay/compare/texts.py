"""When two texts are the same. Patterns are anyone's: RE2 matches them in time and memory that are
bounded, whatever they are."""

from __future__ import annotations

import unicodedata

from agentserve.core.errors import InvalidRequest
from agentserve.replay.compare.expectations import TextRule

MAX_MATCHED = 100_000
"""Characters of a text that a pattern is tried on; a longer one matches none."""


def same_text(recorded: str, replayed: str, rule: TextRule) -> bool:
    """Raises InvalidRequest for a pattern that is none."""
    if rule.pattern is not None:
        return _matches(rule.pattern, replayed)
    if rule.mode == "normalised":
        return normalised(recorded) == normalised(replayed)
    return recorded == replayed


def normalised(text: str) -> str:
    """Folded to what people take for the same text."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def check_pattern(rule: TextRule) -> None:
    """Raises InvalidRequest for a pattern that is none."""
    if rule.pattern is not None:
        _matches(rule.pattern, "")


def _matches(pattern: str, text: str) -> bool:
    try:
        import re2  # only who uses patterns needs it
    except ImportError as error:
        raise InvalidRequest(
            "texts are compared by a pattern, and RE2 is not installed",
            hint="pip install 'agentserve[replay]'",
        ) from error
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        told = error.args[0].decode(errors="replace")  # they are bytes
        raise InvalidRequest(
            f"{pattern[:80]!r} is no pattern that RE2 takes: {told[:200]}",
            hint="RE2 has no backreferences and does not look around, so that it always ends soon",
        ) from error
    if len(text) > MAX_MATCHED:
        return False
    return compiled.fullmatch(text.encode("utf-8", "surrogatepass")) is not None
