"""When two texts are the same. Patterns are anyone's: they are matched under a time limit."""

from __future__ import annotations

import unicodedata

from agentserve.core.errors import InvalidRequest
from agentserve.replay.compare.expectations import TextRule

PATTERN_TIMEOUT_S = 1.0
"""A pattern that backtracks longer matches nothing; a sane one takes microseconds."""
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


def _matches(pattern: str, text: str) -> bool:
    try:
        import regex  # only who uses patterns needs it
    except ImportError as error:
        raise InvalidRequest(
            "texts are compared by a pattern, and the package regex is not installed",
            hint="pip install 'agentserve[replay]'",
        ) from error
    if len(text) > MAX_MATCHED:
        return False
    try:
        return regex.fullmatch(pattern, text, timeout=PATTERN_TIMEOUT_S) is not None
    except TimeoutError:
        return False
    except (regex.error, OverflowError, RecursionError, ValueError) as error:
        raise InvalidRequest(f"{pattern[:80]!r} is no regular expression: {error}") from error
