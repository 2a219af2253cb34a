"""Steps of an imported recording that type something which may be a secret. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import JsonValue

from agentserve.core.actions import Key, Type
from agentserve.core.actions.recorded import Fill, KeyDown, KeyUp, Unsupported, WaitFor
from agentserve.core.elements import ElementTarget
from agentserve.core.secret_names import PLACEHOLDER, placeholders_in
from agentserve.replay.bundle.format import StepLine
from agentserve.replay.redaction.secrets import MIN_SECRET, Secrets

_PASSWORD = re.compile(
    r"passw|pass[-_ ]?phrase|pass[-_ ]?code|\bpwd?\b|passwor[td]|contrase|mot de passe|kennwort"
    r"|wachtwoord|l[öo]senord|salasana|has[łl]o\b|\bsenha\b|парол|密码|密碼|パスワード|비밀번호",
    re.IGNORECASE,
)
_CHECKED = ("true", "false")
"""What Fill says of a box that is checked or not."""
_BETWEEN = ("Shift", "CapsLock", "Backspace")
"""Keys that are pressed while a word is typed."""
_UNREAD = re.compile(
    r"\b(?:input(?:_text)?|send_keys|write|typewrite|typing|insert_text)\b", re.IGNORECASE
)
"""In the source's own words for what has no equal: it types."""


def typed_passwords(steps: Sequence[StepLine], known: Sequence[int] = ()) -> list[int]:
    """Indices of the steps that hold in clear what is typed into a password's field, or expected
    there: those ``known`` by the source, and those whose element is spoken of as one, a guess."""
    return [
        step.index
        for step in steps
        if _is_clear(_text_of(step.performed))
        and (step.index in known or any(_PASSWORD.search(text) for text in _words(step)))
    ]


def typed_in_clear(steps: Sequence[StepLine]) -> list[int]:
    """Indices of all steps that type a text in which no secret is hidden."""
    return [
        step.index
        for step in steps
        if isinstance(step.performed, Fill | Type)
        and _is_clear(_text_of(step.performed))
        or isinstance(step.performed, Unsupported)
        and _UNREAD.search(step.performed.what)
        and not placeholders_in(step.performed.what)
    ]


def keyed_one_by_one(steps: Sequence[StepLine]) -> list[int]:
    """Indices of the steps that press a character's key, where so many follow each other that they
    may be a secret: in single keys none is found."""
    found: list[int] = []
    for run in _runs(steps):
        keys = [step.index for step, _ in run if not isinstance(step.performed, Type)]
        found += keys if len(keys) >= MIN_SECRET else []
    return found


def typed_in_pieces(steps: Sequence[StepLine], secrets: Secrets) -> list[int]:
    """Indices of the steps that together type one of the ``secrets``, of which none has it whole:
    in them it is not found."""
    found: list[int] = []
    for run in _runs(steps):
        whole = secrets.hidden("".join(piece for _, piece in run))
        apart = "".join(secrets.hidden(piece) for _, piece in run)
        if len(PLACEHOLDER.findall(whole)) > len(PLACEHOLDER.findall(apart)):
            found += [step.index for step, _ in run]
    return found


def _runs(steps: Sequence[StepLine]) -> Iterator[list[tuple[StepLine, str]]]:
    """Steps that type one after the other, each with what it types."""
    run: list[tuple[StepLine, str]] = []
    for step in steps:
        if (piece := _piece(step.performed)) is None:
            yield run
            run = []
        elif piece:
            run.append((step, piece))
    yield run


def _piece(action: Any) -> str | None:
    """What an action adds to the text that is being typed; None: it ends that."""
    if isinstance(action, Type):
        return action.text
    if isinstance(action, Key):
        *held, key = action.keys.split("+")
    elif isinstance(action, KeyDown):
        held, key = [], action.key
    else:
        return "" if isinstance(action, KeyUp) else None
    if not set(held) <= {"Shift"}:
        return None
    if len(key) == 1:
        return key.upper() if held else key
    return {"Space": " ", **dict.fromkeys(_BETWEEN, "")}.get(key)


def _text_of(action: Any) -> str:
    match action:
        case Fill(value=text) if text not in _CHECKED:
            return text
        case Type(text=text):
            return text
        case WaitFor(value=str(text)) if text not in _CHECKED:
            return text
    return ""


def _is_clear(text: str) -> bool:
    return bool(text) and not placeholders_in(text)


def _words(step: StepLine) -> Iterator[str]:
    """What speaks of the step's element: its selectors and text, and the source's own selectors,
    of which some have no equal here."""
    target = step.target or ElementTarget()
    yield from (selector.value for chain in target.selectors for selector in chain)
    yield target.text
    for source in step.origin if isinstance(step.origin, list) else [step.origin]:
        yield from _own_selectors(source)


def _own_selectors(source: JsonValue) -> Iterator[str]:
    if not isinstance(source, dict):
        return
    for holder in (source, source.get("params")):
        if isinstance(holder, dict):
            yield from (str(holder[name]) for name in ("selector", "selectors") if name in holder)
