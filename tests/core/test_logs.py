"""Records as lines: what they are about, what cannot be forged, what is never told."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import time
from collections.abc import Callable, Iterator

import pytest

from agentserve.core.config import LOG_FORMATS, LogConfig
from agentserve.core.errors import InvalidRequest
from agentserve.core.logs import LONGEST, fields, set_up_logs, tell

log = logging.getLogger("agentserve.test")


@pytest.fixture
def logged() -> Iterator[Callable[..., io.StringIO]]:
    """``logged(format="json")``: where this process logs from now on, until the test ends."""
    names = ("", "agentserve", "uvicorn")
    loggers = [logging.getLogger(name) for name in names]
    before = [(one.level, list(one.handlers)) for one in loggers]

    def begin(**config: str) -> io.StringIO:
        stream = io.StringIO()
        set_up_logs(LogConfig(**config), stream)
        return stream

    yield begin
    logging.captureWarnings(False)
    for one, (level, handlers) in zip(loggers, before, strict=True):
        one.level, one.handlers = level, handlers
        one.manager._clear_cache()


async def test_each_task_tells_its_own(logged):
    stream = logged(format="json")

    async def turn(number: int) -> None:
        tell(session_id=f"s_{number}", turn=number)
        await asyncio.sleep(0)
        await asyncio.to_thread(log.info, "turn %d", number)

    tell(request_id="r_1")
    await asyncio.gather(turn(1), turn(2))
    tell(request_id=None)
    log.info("after", extra=fields(ms=1.5))
    records = sorted(map(json.loads, stream.getvalue().splitlines()), key=lambda r: r["message"])
    about = [
        {k: r.get(k) for k in ("message", "request_id", "session_id", "turn")} for r in records
    ]
    assert about == [
        {"message": "after", "request_id": None, "session_id": None, "turn": None},
        {"message": "turn 1", "request_id": "r_1", "session_id": "s_1", "turn": 1},
        {"message": "turn 2", "request_id": "r_1", "session_id": "s_2", "turn": 2},
    ]
    assert records[0]["ms"] == 1.5
    assert (records[1]["level"], records[1]["logger"]) == ("info", "agentserve.test")
    assert records[1]["time"].endswith("Z")


FORGED = "x\n2026-11-30T00:00:00.000Z INFO agentserve.access all is well\r\x1b[2J\u2028\u202e\x85y"


@pytest.mark.parametrize("form", LOG_FORMATS)
def test_what_a_client_sends_cannot_look_like_a_record(logged, form: str):
    stream = logged(format=form)
    log.info("asked for %s", FORGED, extra=fields(route=FORGED))
    try:
        raise ValueError(FORGED)
    except ValueError:
        log.exception("failed")
    written = stream.getvalue()
    assert not set("\r\x1b\u2028\u202e\x85") & set(written)
    lines = written.splitlines()
    if form == "json":
        records = [json.loads(line) for line in lines]
        assert [record["level"] for record in records] == ["info", "error"]
        assert records[0]["message"].startswith("asked for x\\n2026")
        assert records[1]["traceback"].endswith("y")
        return
    begun = [line for line in lines if not line.startswith("  | ")]
    assert [line.split()[1] for line in begun] == ["INFO", "ERROR"]
    assert begun[0].endswith("\\x1b[2J\\u2028\\u202e\\x85y")


@pytest.mark.parametrize("form", LOG_FORMATS)
@pytest.mark.parametrize(
    "text",
    [
        "the store at redis://user:hunter2@host:6379/0 is gone",
        "worker w-1 http://user:p/w#hunter2@host:8301 is down",
        "unix:///run/redis.sock?db=2&password=hunter2 refused",
        "got Authorization: Bearer hunter2hunter2",
        "sent {'authorization': 'Basic hunter2hunter2=='}",
    ],
)
def test_secrets_are_left_out(logged, form: str, text: str):
    stream = logged(format=form)
    log.warning("%s", text, extra=fields(where=text))
    try:
        raise RuntimeError(text)
    except RuntimeError:
        log.exception("failed")
    assert "hunter2" not in stream.getvalue()
    assert "***" in stream.getvalue()


@pytest.mark.parametrize("text", ["m", "://", "Bearer ", "?key=", "://a "])
def test_a_hostile_length_is_cut_at_once(logged, text: str):
    stream = logged()
    begun = time.thread_time()
    log.info("%s", text * 10**6, extra=fields(route=text * 10**6))
    assert len(stream.getvalue()) < 20_000
    assert time.thread_time() - begun < 10  # of a search that is quadratic: minutes


def test_a_secret_that_is_cut_through_is_left_out(logged):
    stream = logged()
    log.info("%s", "m" * (LONGEST - 20) + " redis://u:hunter2hunter2@host")
    try:
        raise ValueError("redis://u:" + "hunter2" * 3 + "@host\n" + "m" * (LONGEST - 30) + "\nend")
    except ValueError:
        log.exception("failed")
    assert "hunter" not in stream.getvalue()
    assert stream.getvalue().endswith("  | end\n")


def test_text_and_values_that_are_no_words(logged):
    stream = logged()
    log.info("done", extra=fields(route="/v1/{x}", odd='a "b" c'))
    assert stream.getvalue().endswith(
        'INFO agentserve.test [route=/v1/{x} odd="a \\"b\\" c"] done\n'
    )


def test_levels(logged):
    logging.getLogger("uvicorn").propagate = False  # as uvicorn's own set-up leaves it
    stream = logged(level="debug")
    log.debug("ours")
    # headers, queries, statements: whatever the level, libraries' details are not told
    for library in ("httpx", "httpcore", "urllib3"):
        logging.getLogger(library).info("theirs")
        logging.getLogger(library).debug("theirs")
    logging.getLogger("uvicorn.error").warning("a server's")
    assert [line.split()[-1] for line in stream.getvalue().splitlines()] == ["ours", "server's"]
    stream = logged(level="error")
    log.warning("ours")
    logging.getLogger("httpx").warning("theirs")
    assert stream.getvalue() == ""


def test_settings_are_checked():
    with pytest.raises(InvalidRequest, match="xml"):
        LogConfig(format="xml")
    with pytest.raises(InvalidRequest, match="loud"):
        LogConfig(level="loud")
