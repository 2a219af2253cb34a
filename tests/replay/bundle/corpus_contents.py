"""Damaged bundles, the second part: what is wrong in their pictures, files and sense. verify finds
it, and whoever asks for the entry is refused."""

from __future__ import annotations

import hashlib
import io
import json
import os
from pathlib import Path
from typing import Any

from PIL import Image
from replay.bundle.corpus import (
    SHA,
    Damage,
    box,
    grown,
    meta_with,
    part_with,
    screenshot_that,
    step_with,
)
from replay.replay_builders import make_png

from agentserve.replay.bundle.format import EXPECT, NETWORK


def with_screenshot(data: bytes) -> Damage:
    """Put other bytes in the place of the second step's screenshot, under their own hash."""

    def damage(folder: Path) -> None:
        sha = hashlib.sha256(data).hexdigest()
        (folder / "screenshots" / f"{sha}.png").write_bytes(data)
        step_with(lambda step: step.update(screenshot=sha))(folder)

    return damage


def with_aria(data: bytes, sha: str | None = None) -> Damage:
    def damage(folder: Path) -> None:
        name = sha or hashlib.sha256(data).hexdigest()
        (folder / "aria").mkdir()
        (folder / "aria" / f"{name}.yml").write_bytes(data)
        step_with(lambda step: step.update(aria=name))(folder)

    return damage


def with_file(entry: str, data: bytes) -> Damage:
    def damage(folder: Path) -> None:
        (folder / entry).parent.mkdir(exist_ok=True)
        (folder / entry).write_bytes(data)

    return damage


def picture(kind: str, **options: Any) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (224, 280)).save(out, kind, **options)
    return out.getvalue()


def animated() -> bytes:
    frames = [Image.new("RGB", (224, 280), (shade, 0, 0)) for shade in (0, 200)]
    out = io.BytesIO()
    frames[0].save(out, "PNG", save_all=True, append_images=frames[1:])
    return out.getvalue()


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


def har(**entry: Any) -> bytes:
    request = {"method": "GET", "url": "http://127.0.0.1/", "headers": []}
    response = {"status": 200, "content": {"size": 2, "text": "ok"}}
    entries = [{"request": request, "response": response, **entry}]
    return json.dumps({"log": {"version": "1.2", "entries": entries}}).encode()


PNG = rf"screenshots/{SHA}\.png: "
HAR = r"network\.har: "
NOT_THE_HASH = "its bytes do not have the hash of its name"

VERIFY_DAMAGES: dict[str, tuple[Damage, str]] = {
    "screenshot of another hash": (
        screenshot_that(lambda path: path.write_bytes(make_png(77)) and None),
        PNG + NOT_THE_HASH,
    ),
    "screenshot emptied": (screenshot_that(lambda path: os.truncate(path, 0)), PNG + NOT_THE_HASH),
    "screenshot cut off": (
        with_screenshot(make_png()[:400]),
        PNG + "the picture's PNG data is damaged",
    ),
    "screenshot of a head alone": (
        with_screenshot(make_png()[:33]),
        PNG + "the picture is not a PNG",
    ),
    "screenshot with a flipped byte": (
        with_screenshot(flipped(make_png(), 60)),
        PNG + "the picture's PNG data is damaged",
    ),
    "screenshot is a JPEG": (with_screenshot(picture("JPEG")), PNG + "not a PNG"),
    "screenshot is a WebP": (with_screenshot(picture("WEBP")), PNG + "not a PNG"),
    "screenshot is a GIF": (with_screenshot(picture("GIF")), PNG + "not a PNG"),
    "screenshot is a page": (with_screenshot(b"<svg/>" * 10), PNG + "not a PNG"),
    "screenshot moves": (with_screenshot(animated()), PNG + "the picture is an animation"),
    "screenshot is a bomb": (
        with_screenshot(make_png()[:16] + b"\0\1\0\0" * 2 + make_png()[24:]),
        PNG + "a picture of 65536x65536 px",
    ),
    "screenshot of no pixels": (
        with_screenshot(make_png()[:16] + bytes(8) + make_png()[24:]),
        PNG + "a picture of 0x0 px",
    ),
    "screenshot of another size": (
        with_screenshot(make_png(5, (100, 100))),
        r"steps\.jsonl line 2: the screenshot has 100x100 px",
    ),
    "aria snapshot of another hash": (
        with_aria(b"- button", "a" * 64),
        rf"aria/{SHA}\.yml: {NOT_THE_HASH}",
    ),
    "aria snapshot not UTF-8": (with_aria(b"- \xff"), rf"aria/{SHA}\.yml: not UTF-8"),
    "network is no JSON": (with_file(NETWORK, b"{"), HAR + "not JSON"),
    "network is empty": (with_file(NETWORK, b""), HAR + "not JSON"),
    "network with NaN": (with_file(NETWORK, har(time=float("nan"))), HAR + "not JSON"),
    "network nested too deep": (with_file(NETWORK, b'{"log":' * 9_999), HAR + "not JSON"),
    "network is a list": (with_file(NETWORK, b"[]"), HAR + "not a HAR file"),
    "network without entries": (
        with_file(NETWORK, b'{"log": {"version": "1.2"}}'),
        HAR + "not a HAR file",
    ),
    "network without a request": (
        with_file(NETWORK, har(request=None)),
        HAR + r"log\.entries\.0: request or response is missing",
    ),
    "network with a status in words": (
        with_file(NETWORK, har(response={"status": "ok"})),
        HAR + r"log\.entries\.0: response\.status",
    ),
    "network with bodies elsewhere": (
        with_file(NETWORK, har(response={"status": 200, "content": {"_file": "/etc/passwd"}})),
        HAR + "it names files outside of it",
    ),
    "network with escaped bodies elsewhere": (
        with_file(NETWORK, har(_x={"_file": "a"}).replace(b"_file", b"\\u005ffile")),
        HAR + "it names files outside of it",
    ),
    "network too large": (
        lambda folder: (with_file(NETWORK, b"")(folder), grown(NETWORK, 10**10)(folder)) and None,
        r"network\.har is larger than",
    ),
    "network is a link": (
        lambda folder: (folder / NETWORK).symlink_to("/etc/passwd"),
        r"network\.har cannot be opened",
    ),
    "network is missing": (
        meta_with(page={"network": "recorded"}),
        HAR + "is missing, though meta.json says",
    ),
    "expectations are no JSON": (with_file(EXPECT, b"yes"), r"expect\.json: "),
    "expectations are a list": (with_file(EXPECT, b"[]"), r"expect\.json: "),
    "expectations not UTF-8": (with_file(EXPECT, b'{"a": "\xff"}'), r"expect\.json: "),
    "expectations with an unknown field": (
        with_file(EXPECT, b'{"mood": 1}'),
        r"expect\.json: 'mood'",
    ),
    "expectations of another schema": (
        with_file(EXPECT, b'{"schema_version": 9}'),
        r"expect\.json: 'schema_version'",
    ),
    "accepted screenshot that is a path": (
        with_file(EXPECT, b'{"steps": [{"index": 0, "accepted_screens": ["../x"]}]}'),
        r"expect\.json: 'steps\.0\.accepted_screens",
    ),
    "accepted screenshot missing": (
        with_file(EXPECT, b'{"steps": [{"index": 0, "accepted_screens": ["%s"]}]}' % (b"a" * 64)),
        rf"screenshots/{SHA}\.png is missing",
    ),
    "accepted snapshot missing": (
        with_file(EXPECT, b'{"steps": [{"index": 0, "accepted_aria": ["%s"]}]}' % (b"a" * 64)),
        rf"aria/{SHA}\.yml is missing",
    ),
    "expectations too large": (
        lambda folder: (with_file(EXPECT, b"")(folder), grown(EXPECT, 10**9)(folder)) and None,
        r"expect\.json is larger than",
    ),
    "expectations are a pipe": (
        lambda folder: os.mkfifo(folder / EXPECT),
        r"expect\.json is not a regular file",
    ),
    "heat map is no picture": (
        with_file("heatmaps/0001.png", b"no"),
        r"heatmaps/0001\.png: the picture is not a PNG picture",
    ),
    "names that differ by case": (
        with_file("Meta.json", b"{}"),
        r"meta\.json: differs from Meta\.json by case alone",
    ),
    "a pipe beside the entries": (
        lambda folder: os.mkfifo(folder / "wait"),
        "wait is not a regular file",
    ),
    "a link beside the entries": (
        lambda folder: (folder / "link").symlink_to("/etc/passwd"),
        "link cannot be opened",
    ),
    "agent without a session": (
        meta_with(session=None),
        r"meta\.json: an agent's recording has a session",
    ),
    "session of another viewport": (
        part_with("session", scale=2.0),
        r"meta\.json: the session's viewport or scale is another one",
    ),
    "space of another grid": (part_with("space", grid=0), r"meta\.json: the space is not the one"),
    "space of a scale below 0": (
        part_with("space", scale=-1.0),
        r"meta\.json: the space is not the one",
    ),
    "space of another size": (
        part_with("space", model={"width": 28, "height": 28}),
        r"meta\.json: the space is not the one",
    ),
    "import of nothing": (meta_with(source="import"), r"meta\.json: source and imported"),
    "mask beyond all pages": (meta_with(masks=[box(x=1e300)]), r"meta\.json: a mask is farther"),
    "point outside the viewport": (
        step_with(lambda step: step["performed"].update(x=160)),
        r"steps\.jsonl line 2: click at \(160, 60\) is outside the viewport 160x210",
    ),
    "box beyond all pages": (
        step_with(lambda step: step.update(target={"box": box(x=1e300)})),
        r"steps\.jsonl line 2: an element's box or offset is farther",
    ),
}
