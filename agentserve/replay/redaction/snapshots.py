"""Secrets in aria snapshots, which are YAML: a text that begins with a brace is a mapping there."""

from __future__ import annotations

import json
import re

_KEY = (
    r"""(?:'(?:[^'\n]|'')*'"""
    r"""|"(?:[^"\\\n]|\\.)*\""""
    r"""|[^\s"'\[\]{]+(?:[ ]"(?:[^"\\\n]|\\.)*")?(?:[ ]\[[^\]\n]*\])*)"""
)
"""A node's label: in quotes as a whole, or its role, name and states."""
_BARE = re.compile(
    rf"""^(?P<before>[ ]*-[ ](?:{_KEY}:[ ])?)"""
    r"""(?P<text>\{\{secret:[A-Za-z_][A-Za-z0-9_]{0,63}\}\}[^\n]*)$""",
    re.MULTILINE,
)


def quoted_placeholders(snapshot: str) -> str:
    """The snapshot with every text quoted that begins with a secret's placeholder. The value that
    stood there needed no quotes, so what is left of the text needs them for the placeholder only.
    Quoting again changes nothing."""
    return _BARE.sub(_quoted, snapshot)


def _quoted(found: re.Match[str]) -> str:
    text = found["text"]
    # the colon of a node with children is not of the text
    colon = ":" if text.endswith(":") else ""
    whole = json.dumps(text.removesuffix(":"), ensure_ascii=False)
    return f"{found['before']}{whole}{colon}"
