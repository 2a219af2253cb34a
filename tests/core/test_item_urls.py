"""The metadata in an item's data URL: what goes in comes out, and nothing else comes in."""

import base64
import io
import json

import numpy as np
import pytest
from PIL import Image

from agentserve.core.errors import InvalidRequest
from agentserve.core.item_urls import (
    MAX_META,
    PREFIX,
    After,
    ItemAfter,
    ItemMeta,
    TextAnchor,
    item_url,
    keep_set,
    kept_tokens,
    parse_item_url,
)
from agentserve.core.plans import Box, Seal
from agentserve.core.screens import Size

SEAL = Seal(history="ab" * 32)
META = ItemMeta(
    screen=Size(width=224, height=280),
    box=Box(x=28, y=56, width=84, height=56),
    base=7,
    time=9,
    keep="qA==",
    seal=SEAL,
    texts=[TextAnchor(index=3, position=90), TextAnchor(index=8, seal=SEAL)],
)


def png(width: int = 84, height: int = 56) -> str:
    buffer = io.BytesIO()
    Image.new("RGB", (width, height)).save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


def url(fields: object, picture: str | None = None) -> str:
    """A URL with any JSON as its metadata."""
    text = base64.b64encode(json.dumps(fields).encode()).decode()
    return f"{PREFIX}{text};base64,{png() if picture is None else picture}"


def fields(**changes: object) -> dict:
    return META.model_dump(mode="json") | changes


def test_what_goes_in_comes_out():
    assert parse_item_url(item_url(META, png())) == META
    small = ItemMeta(screen=META.screen, box=META.box)
    assert parse_item_url(item_url(small, png())) == small


def test_what_stays_after_the_answer_comes_along():
    after = After(
        owner="s-1",
        kept="qA==",
        items=[ItemAfter(keep="gA==", seal=SEAL), ItemAfter()],
        texts=[TextAnchor(index=1, position=4, seal=SEAL)],
    )
    meta = META.model_copy(update={"after": after})
    assert parse_item_url(item_url(meta, png())) == meta


def test_the_pixels_are_where_every_reader_of_data_urls_looks():
    _, encoded = item_url(META, png()).split(",", 1)
    assert encoded == png()


@pytest.mark.parametrize(
    "other", [f"data:image/png;base64,{png()}", "http://host/a.png", png(), "", "data:"]
)
def test_other_urls_are_no_items(other: str):
    assert parse_item_url(other) is None


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (url(fields(base=-1)), "base: Input should be greater"),
        (url(fields(base=2**40)), "base: Input should be less"),
        (url(fields(base="7")), "base: Input should be a valid integer"),
        (url(fields(base=True)), "base: Input should be a valid integer"),
        (url(fields(turn=1)), "turn: Extra inputs"),
        (url(fields(screen={"width": 84, "height": 280})), "not inside the screen"),
        (url(fields(screen={"width": 10**6, "height": 280})), "screen.width: Input should be less"),
        (url(fields(box={"x": 0, "y": 0, "width": 0, "height": 28})), "box.width"),
        (url(fields(seal={"history": "zz"})), "seal.history: String should match"),
        (url(fields(texts=[{"index": 0}] * 5000)), "texts: List should have at most"),
        (url(fields(after={"kept": "gA=="})), "after.owner: Field required"),
        (url(fields(after={"owner": "", "kept": "gA=="})), "after.owner: String should have at"),
        (url([]), "as a whole"),
        (f"{PREFIX}%%;base64,{png()}", "not base64"),
        (f"{PREFIX}{base64.b64encode(b'{').decode()};base64,{png()}", "Invalid JSON"),
        (f"{PREFIX}e30=,{png()}", "does not end"),
        (f"{PREFIX}{'A' * (MAX_META + 4)};base64,{png()}", "does not end"),
        (url(fields(), png(56, 56)), "picture is 56x56, its box 84x56"),
        (url(fields(), "AAAA"), "not a PNG"),
        (url(fields(), ""), "not a PNG"),
        (url(fields(), "§§§§"), "not base64"),
        (url(fields(), base64.b64encode(b"GIF89a" + bytes(40)).decode()), "not a PNG"),
    ],
)
def test_what_is_malformed_is_refused(bad: str, message: str):
    with pytest.raises(InvalidRequest, match=message):
        parse_item_url(bad)


def test_a_bitmap_begins_with_the_highest_bit():
    assert kept_tokens("qA==", 6).tolist() == [0, 2, 4]  # 1010 1000


@pytest.mark.parametrize("tokens", [1, 8, 9, 60])
def test_keep_sets_come_back(tokens: int):
    kept = np.flatnonzero(np.random.default_rng(tokens).random(tokens) < 0.5)
    kept = kept if len(kept) else np.array([tokens - 1])
    assert np.array_equal(kept_tokens(keep_set(kept, tokens), tokens), kept)


@pytest.mark.parametrize(
    ("keep", "tokens", "message"),
    [
        ("AA==", 6, "empty"),
        ("qA==", 9, "none of 9 tokens"),
        ("qKg=", 6, "none of 6 tokens"),
        ("qQ==", 6, "none of 6 tokens"),  # a bit behind the last token
        ("", 6, "none of 6 tokens"),
        ("q", 6, "not base64"),
        ("ä", 6, "not base64"),
    ],
)
def test_what_is_no_keep_set_is_refused(keep: str, tokens: int, message: str):
    with pytest.raises(InvalidRequest, match=message):
        kept_tokens(keep, tokens)
