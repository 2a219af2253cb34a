"""What a process logs: a line a record, as text or as JSON, with what the record is about.

Whoever begins with a request, a turn or a session says so once, by ``tell``: from then on each
record of the running task, and of the tasks and threads that get a copy of its context, has it.

A record is one line, whatever a client has sent: what could end it, or move the cursor, is escaped.
Passwords in URLs and credentials are left out; libraries' records below warnings are not logged at
all, since they hold headers, queries and what is stored.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, TextIO

from agentserve.core import tracing
from agentserve.core.config import LogConfig

LONGEST = 16_384
"""Characters of a message, and of a traceback; the rest is cut off."""
LONGEST_VALUE = 128
_OURS = ("agentserve", "uvicorn")

_about: ContextVar[Mapping[str, object]] = ContextVar("about", default={})  # noqa: B039 -- never changed
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# Each begins with few literal characters and is bounded: a hostile text takes no time to search.
_SECRETS = (
    (re.compile(r"(://)[^\s\"'<>]{0,512}@"), r"\1***@"),
    (re.compile(r"(://)[^\s\"'<>]{0,512}…$"), r"\1***…"),
    (re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]{6,}"), r"\1 ***"),
    (re.compile(r"(?i)([?&](?:password|secret|token|key|api_key)=)[^\s&]+"), r"\1***"),
)
_PLAIN = re.compile(rf"[\w.:/{{}}+-]{{1,{LONGEST_VALUE}}}", re.ASCII)
"""A word that needs no look: there is no secret without one of @ = and space."""


def tell(**fields: object) -> None:
    """Add to what the running task's records are about: ``request_id``, ``session_id``, ``turn``,
    ``worker_id``. None says that a field is not known any more."""
    told = sorted({**_about.get(), **fields}.items())
    _about.set({name: value for name, value in told if value is not None})


def told() -> dict[str, object]:
    """What was told so far."""
    return dict(_about.get())


def fields(**more: object) -> dict[str, Any]:
    """``extra`` of a record that has fields of its own."""
    return {"fields": more}


def set_up_logs(config: LogConfig, stream: TextIO | None = None) -> None:
    """Let this process log to ``stream``, standard error by default, and nowhere else."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.addFilter(About())
    handler.setFormatter(JsonFormatter() if config.format == "json" else TextFormatter())
    level = logging.getLevelNamesMapping()[config.level.upper()]
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(level, logging.WARNING))
    for name in _OURS:
        ours = logging.getLogger(name)
        ours.setLevel(level)
        ours.handlers, ours.propagate = [], True  # uvicorn's own set-up may have been here
    logging.captureWarnings(True)


class About(logging.Filter):
    """Gives each record ``about``: what the task has told, its trace, then the record's own."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.about = {**_about.get(), **tracing.ids(), **getattr(record, "fields", {})}
        return True


class TextFormatter(logging.Formatter):
    """``TIME LEVEL LOGGER [FIELD=VALUE …] MESSAGE``, and the lines of a traceback behind bars."""

    def format(self, record: logging.LogRecord) -> str:
        about = " ".join(f"{name}={_word(value)}" for name, value in record.about.items())
        head = f"{_time(record)} {record.levelname} {record.name}"
        line = f"{head} [{about}] {_line(record)}" if about else f"{head} {_line(record)}"
        traceback = _traceback(self, record)
        return "\n".join([line, *(f"  | {_safe(each)}" for each in traceback.split("\n") if each)])


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ``time``, ``level``, ``logger``, ``message``, what the record is
    about, ``traceback``."""

    def format(self, record: logging.LogRecord) -> str:
        told = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _line(record),
        }
        about = {name: _short(value) for name, value in record.about.items() if name not in told}
        if traceback := _traceback(self, record):
            about["traceback"] = traceback
        return json.dumps({**told, **about})


def _time(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _line(record: logging.LogRecord) -> str:
    return _safe(_without_secrets(_cut(record.getMessage(), LONGEST)))


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    if not record.exc_info:
        return ""
    text = formatter.formatException(record.exc_info)
    if (
        len(text) > LONGEST
    ):  # the end says what happened; whole lines, so that no URL is cut through
        text = text[-LONGEST:].partition("\n")[2] or _cut(text, LONGEST)
    return _without_secrets(text)


def _without_secrets(text: str) -> str:
    for secret, instead in _SECRETS:
        text = secret.sub(instead, text)
    return text


def _short(value: object) -> object:
    if isinstance(value, bool | int | float) or (
        isinstance(value, str) and _PLAIN.fullmatch(value)
    ):
        return value
    return _cut(_without_secrets(_cut(str(value), LONGEST)), LONGEST_VALUE)


def _word(value: object) -> str:
    text = _safe(str(_short(value)))
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[:longest] + "…"


def _safe(text: str) -> str:
    """In one line, and as it is read: without control characters and changes of direction."""
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
