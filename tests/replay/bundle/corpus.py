"""Damaged bundles: a whole one in a folder, what is done to it, and how it is refused then.

READ_DAMAGES are refused by read_recording already, with a message that begins so behind the
bundle's name. Those that only verify finds are in corpus_contents.py, those of zip files in
corpus_archives.py.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentserve.replay.bundle.format import (
    MAX_LINES,
    META,
    STEPS,
)

Damage = Callable[[Path], None]

SHA = "[0-9a-f]{64}"


def meta_with(**update: Any) -> Damage:
    def damage(folder: Path) -> None:
        values = json.loads((folder / META).read_text())
        values.update(update)
        (folder / META).write_text(json.dumps(values))

    return damage


def part_with(name: str, **update: Any) -> Damage:
    """Change a field of meta.json that is an object."""

    def damage(folder: Path) -> None:
        part = json.loads((folder / META).read_text())[name]
        meta_with(**{name: {**part, **update}})(folder)

    return damage


def step_with(change: Callable[[dict[str, Any]], None], line: int = 2) -> Damage:
    """Change the JSON of one line (counted from 1)."""

    def damage(folder: Path) -> None:
        lines = (folder / STEPS).read_text().splitlines()
        values = json.loads(lines[line - 1])
        change(values)
        lines[line - 1] = json.dumps(values)
        (folder / STEPS).write_text("\n".join(lines) + "\n")

    return damage


def lines_with(change: Callable[[list[bytes]], None]) -> Damage:
    def damage(folder: Path) -> None:
        lines = (folder / STEPS).read_bytes().splitlines()
        change(lines)
        (folder / STEPS).write_bytes(b"\n".join(lines) + b"\n")

    return damage


def replaced(entry: str, data: bytes) -> Damage:
    return lambda folder: None if (folder / entry).write_bytes(data) else None


def removed(entry: str) -> Damage:
    return lambda folder: (folder / entry).unlink()


def linked(entry: str) -> Damage:
    """Move an entry out of the folder and leave a symbolic link to it."""

    def damage(folder: Path) -> None:
        outside = folder.parent / "outside"
        (folder / entry).rename(outside)
        (folder / entry).symlink_to(outside)

    return damage


def grown(entry: str, size: int) -> Damage:
    """A sparse file of that size: refusing it must not need its bytes."""
    return lambda folder: os.truncate(folder / entry, size)


def screenshot_that(change: Damage) -> Damage:
    """Change the file of the first step's screenshot."""

    def damage(folder: Path) -> None:
        sha = json.loads((folder / STEPS).read_text().splitlines()[0])["screenshot"]
        change(folder / "screenshots" / f"{sha}.png")

    return damage


def as_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def as_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere.png"))
    path.symlink_to("elsewhere.png")


def as_device(path: Path) -> None:
    """A link to one: only root may make a device."""
    path.unlink()
    path.symlink_to("/dev/zero")


def prefixed(path: Path, data: bytes) -> None:
    path.write_bytes(data + path.read_bytes())


def swapped(path: Path, old: bytes, new: bytes) -> None:
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new, 1))


def box(**update: float) -> dict[str, float]:
    return {"x": 1, "y": 1, "width": 10, "height": 10, **update}


def tokens(**update: int) -> dict[str, Any]:
    return {"rows": 1, "columns": 1, "sent": "gA==", "live": "gA==", **update}


def other_schema(version: int) -> str:
    return rf"meta\.json: schema version {version}, this agentserve reads 2 to 4"


READ_DAMAGES: dict[str, tuple[Damage, str]] = {
    "no meta": (removed(META), r"meta\.json is missing"),
    "no steps": (removed(STEPS), r"steps\.jsonl is missing"),
    "empty meta": (replaced(META, b""), r"meta\.json: not JSON"),
    "meta cut off": (replaced(META, b'{"schema_version": 2,'), r"meta\.json: not JSON"),
    "meta not an object": (replaced(META, b"[1]"), r"meta\.json: "),
    "meta nested too deep": (replaced(META, b"[" * 100_000), r"meta\.json: not JSON"),
    "meta not UTF-8": (replaced(META, b'{"id": "\xff\xfe"}'), r"meta\.json: not JSON"),
    "newer schema": (meta_with(schema_version=5, new_field=1), other_schema(5)),
    "older schema": (meta_with(schema_version=1), other_schema(1)),
    "an origin that is none": (meta_with(allow=["http://a/b"]), r"meta\.json: 'allow\.0'"),
    "a file as an origin": (meta_with(allow=["file:///etc"]), r"meta\.json: 'allow\.0'"),
    "schema as text": (meta_with(schema_version="2"), r"meta\.json: 'schema_version'"),
    "unknown field in meta": (meta_with(extra="x"), r"meta\.json: 'extra': Extra inputs"),
    "id that is a path": (meta_with(id="../../etc"), r"meta\.json: 'id'"),
    "time without zone": (meta_with(created_at="2025-01-01T00:00:00"), r"meta\.json: 'created_at'"),
    "session without task": (meta_with(session={"program": "p"}), r"meta\.json: 'session\."),
    "meta is a link": (linked(META), r"meta\.json cannot be opened"),
    "meta too large": (grown(META, 10**9), r"meta\.json is larger than 1048576 bytes"),
    "steps are a link": (linked(STEPS), r"steps\.jsonl cannot be opened"),
    "steps too large": (grown(STEPS, 10**11), r"steps\.jsonl is larger than"),
    "too many lines": (replaced(STEPS, b"{}\n" * (MAX_LINES + 1)), r"steps\.jsonl: more than"),
    "garbled line": (
        lines_with(lambda lines: lines.__setitem__(1, lines[1][:-9])),
        r"steps\.jsonl line 2: ",
    ),
    "binary line": (
        lines_with(lambda lines: lines.__setitem__(0, b"\x00\xff")),
        r"steps\.jsonl line 1: ",
    ),
    "empty line": (lines_with(lambda lines: lines.insert(1, b"")), r"steps\.jsonl line 2: "),
    "line nested too deep": (
        lines_with(lambda lines: lines.__setitem__(1, b'{"type":' * 50_000)),
        r"steps\.jsonl line 2: ",
    ),
    "line too long": (
        step_with(lambda step: step["result"].update(text=os.urandom(550_000).hex())),
        r"steps\.jsonl line 2: longer than",
    ),
    "unknown type": (step_with(lambda step: step.update(type="note")), r"steps\.jsonl line 2: "),
    "unknown field": (
        step_with(lambda step: step["result"].update(mood="fine")),
        r"steps\.jsonl line 2: 'step\.result\.mood': Extra inputs",
    ),
    "missing field": (
        step_with(lambda step: step.pop("url")),
        r"steps\.jsonl line 2: 'step\.url': Field required",
    ),
    "text for a number": (
        step_with(lambda step: step.update(index="1")),
        r"steps\.jsonl line 2: 'step\.index'",
    ),
    "not a number": (
        step_with(lambda step: step.update(step_ms=float("nan"))),
        r"steps\.jsonl line 2: 'step\.step_ms'",
    ),
    "unknown action": (
        step_with(lambda step: step["performed"].update(kind="explode")),
        r"steps\.jsonl line 2: 'step\.performed'",
    ),
    "screenshot that is a path": (
        step_with(lambda step: step.update(screenshot="../../../../etc/passwd")),
        r"steps\.jsonl line 2: 'step\.screenshot'",
    ),
    "hash with a newline": (
        step_with(lambda step: step.update(screenshot=step["screenshot"] + "\n")),
        r"steps\.jsonl line 2: 'step\.screenshot'",
    ),
    "step missing": (
        lines_with(lambda lines: lines.pop(1)),
        r"steps\.jsonl line 2: step 2 where step 1",
    ),
    "step twice": (
        lines_with(lambda lines: lines.insert(1, lines[0])),
        r"steps\.jsonl line 2: step 0 where step 1",
    ),
    "line behind the end": (
        lines_with(lambda lines: lines.append(lines[-1])),
        r"steps\.jsonl line 5: there is a line behind the end",
    ),
    "no screenshots": (
        lambda folder: shutil.rmtree(folder / "screenshots"),
        rf"screenshots/{SHA}\.png is missing",
    ),
    "screenshots are a link": (linked("screenshots"), rf"screenshots/{SHA}\.png cannot be opened"),
    "screenshot missing": (screenshot_that(Path.unlink), rf"screenshots/{SHA}\.png is missing"),
    "screenshot is a link": (
        screenshot_that(as_link),
        rf"screenshots/{SHA}\.png cannot be opened: .*symbolic",
    ),
    "screenshot is a pipe": (
        screenshot_that(as_pipe),
        rf"screenshots/{SHA}\.png is not a regular file",
    ),
    "screenshot is a folder": (
        screenshot_that(as_folder),
        rf"screenshots/{SHA}\.png is not a regular file",
    ),
    "screenshot too large": (
        screenshot_that(lambda path: os.truncate(path, 10**10)),
        rf"screenshots/{SHA}\.png is larger than",
    ),
    "meta with a byte order mark": (
        lambda folder: prefixed(folder / META, b"\xef\xbb\xbf"),
        r"meta\.json: not JSON",
    ),
    "meta with Infinity": (
        lambda folder: swapped(folder / META, b'"scale": 1.4', b'"scale": Infinity'),
        r"meta\.json: not JSON",
    ),
    "meta with a huge number": (meta_with(scale=1e308), r"meta\.json: 'scale'"),
    "truth for a number": (meta_with(scale=True), r"meta\.json: 'scale'"),
    "viewport of nothing": (
        meta_with(viewport={"width": 0, "height": 9}),
        r"meta\.json: 'viewport",
    ),
    "mask without a size": (meta_with(masks=[{"x": 1, "y": 1}]), r"meta\.json: 'masks"),
    "secret that is a path": (meta_with(secrets=["../x"]), r"meta\.json: 'secrets"),
    "half of a character": (
        lambda folder: swapped(folder / META, b'"task": "', b'"task": "\\ud800'),
        r"meta\.json: not JSON",
    ),
    "meta is a pipe": (lambda folder: as_pipe(folder / META), r"meta\.json is not a regular file"),
    "steps are a folder": (
        lambda folder: as_folder(folder / STEPS),
        r"steps\.jsonl is not a regular file",
    ),
    "line with a byte order mark": (
        lambda folder: prefixed(folder / STEPS, b"\xef\xbb\xbf"),
        r"steps\.jsonl line 1: ",
    ),
    "line not UTF-8": (
        lambda folder: swapped(folder / STEPS, b"The button", b"The \xff\xfe"),
        r"steps\.jsonl line 1: ",
    ),
    "list for a line": (
        lines_with(lambda lines: lines.__setitem__(0, b"[" + lines[0] + b"]")),
        r"steps\.jsonl line 1: ",
    ),
    "infinite point": (
        step_with(lambda step: step["performed"].update(x=float("inf"))),
        r"steps\.jsonl line 2: 'step\.performed\.click\.x'",
    ),
    "infinite box": (
        step_with(lambda step: step.update(target={"box": box(x=float("-inf"))})),
        r"steps\.jsonl line 2: 'step\.target\.box\.x'",
    ),
    "box of less than nothing": (
        step_with(lambda step: step.update(target={"box": box(width=-1)})),
        r"steps\.jsonl line 2: 'step\.target\.box\.width'",
    ),
    "negative index": (
        step_with(lambda step: step.update(index=-1)),
        r"steps\.jsonl line 2: step -1 where step 1",
    ),
    "number without an end": (
        lambda folder: swapped(folder / STEPS, b'"index":1', b'"index":1' + b"0" * 500_000),
        r"steps\.jsonl line 2: ",
    ),
    "token map that needs all memory": (
        step_with(lambda step: step["result"].update(token_map=tokens(rows=10**9))),
        r"steps\.jsonl line 2: 'step\.result\.token_map\.rows'",
    ),
    "aria snapshot missing": (
        step_with(lambda step: step.update(aria="a" * 64)),
        rf"aria/{SHA}\.yml is missing",
    ),
    "aria snapshot that is a path": (
        step_with(lambda step: step.update(aria="../meta")),
        r"steps\.jsonl line 2: 'step\.aria'",
    ),
    "screenshot is a device": (
        screenshot_that(as_device),
        rf"screenshots/{SHA}\.png cannot be opened",
    ),
}
