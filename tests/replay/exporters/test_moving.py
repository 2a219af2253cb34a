"""Exports for pages that are at another address now."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentserve.core.actions import Navigate, Type
from agentserve.core.actions.recorded import ClickElement, OpenTab, WaitFor
from agentserve.core.elements import ElementTarget, Selector
from agentserve.core.errors import InvalidRequest
from agentserve.core.screens import Size
from agentserve.replay import Recording, StepLine, read_recording
from agentserve.replay.bundle.format import ScenarioRef
from agentserve.replay.exporters.formats import FORMATS, ExportFormat
from agentserve.replay.exporters.moving import give_at
from agentserve.replay.importers.taken import Taken, write_taken

GONE = "http://127.0.0.1:4567"
LINK = ElementTarget(selectors=((Selector(engine="css", value=f'a[href="{GONE}/a"]'),),))
formats = pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.name)


def recorded(folder: Path, *acts: Any, url: str = f"{GONE}/", **more: Any) -> Recording:
    steps = tuple(
        StepLine(index=index, url=url, performed=act, target=LINK) for index, act in enumerate(acts)
    )
    size = Size(width=9, height=9)
    taken = Taken(format="other", viewport=size, steps=steps, url=url, **more)
    return read_recording(write_taken(folder, "r", taken))


def of_a_scenario(recording: Recording) -> Recording:
    scenario = ScenarioRef(name="admin/sign-in")
    return replace(recording, meta=recording.meta.model_copy(update={"scenario": scenario}))


@formats
def test_that_the_server_of_a_scenario_is_gone_is_told_with_what_to_do(
    tmp_path: Path, known: ExportFormat
) -> None:
    one = recorded(tmp_path, Navigate(url=f"{GONE}/a"))
    assert give_at(known.give, one, None).warnings == ()
    (told,) = give_at(known.give, of_a_scenario(one), None).warnings
    assert GONE in told and "admin/sign-in" in told and "--base-url" in told
    given = give_at(known.give, of_a_scenario(one), "http://b.test:80")
    assert given.warnings == ()
    assert not [name for name, data in given.files.items() if b"4567" in data]
    assert any(b"http://b.test:80/a" in data for data in given.files.values())


def test_where_no_address_is_written_none_is_told(tmp_path: Path) -> None:
    (osworld,) = (known for known in FORMATS if known.name == "osworld")
    one = of_a_scenario(recorded(tmp_path, Type(text="x")))
    assert not give_at(osworld.give, one, None).warnings


def test_all_that_is_of_the_origin_moves_and_nothing_else(tmp_path: Path) -> None:
    (script,) = (known for known in FORMATS if known.name == "playwright")
    others = ("http://127.0.0.1:45678", "http://127.0.0.1", "https://127.0.0.1:4567")
    kept = [*others, "x" + GONE[1:]]
    one = recorded(
        tmp_path,
        Navigate(url=f"{GONE}?next=http%3A%2F%2F127.0.0.1%3A4567%2Fb"),
        OpenTab(url=GONE),
        ClickElement(),
        WaitFor(expression=f"location.href === '{GONE}/b'"),
        *(OpenTab(url=url) for url in kept),
    )
    (data,) = give_at(script.give, one, "https://b.test/").files.values()
    text = data.decode()
    assert not re.search(rf"{GONE}(?!\d)", text)
    assert '"https://b.test?next=https%3A%2F%2Fb.test%2Fb"' in text
    assert 'a[href="https://b.test/a"]' in text
    assert "=== 'https://b.test/b'" in text and all(url in text for url in kept)


@pytest.mark.parametrize(
    "base",
    ["", "b.test", "ftp://b.test", "http://", "http://b.test/shop", "http://b.test?a", "http://a@b",
     "http://b:99999", "http://b:x", "http://b\n", "http://[b"],
)  # fmt: skip
def test_what_is_no_address_of_a_server_is_refused(tmp_path: Path, base: str) -> None:
    one = recorded(tmp_path, Navigate(url=f"{GONE}/a"))
    with pytest.raises(InvalidRequest, match="is no address of a server"):
        give_at(FORMATS[0].give, one, base)


def test_a_recording_of_no_page_on_the_web_has_nothing_to_move(tmp_path: Path) -> None:
    one = recorded(tmp_path, Type(text="x"), url="file:///a")
    with pytest.raises(InvalidRequest, match="names no page on the web"):
        give_at(FORMATS[0].give, one, "http://b.test")


def test_an_address_that_becomes_too_long_is_told(tmp_path: Path) -> None:
    one = recorded(tmp_path, Navigate(url=f"{GONE}/{'a' * 1970}"))
    with pytest.raises(InvalidRequest, match="does not fit any more"):
        give_at(FORMATS[0].give, one, f"http://{'b' * 60}")
