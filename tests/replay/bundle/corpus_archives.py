"""Damaged zip files of a bundle: what is written instead of a proper one, and how it is refused."""

from __future__ import annotations

import io
import os
import stat
import struct
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

from agentserve.replay.bundle.archive import MAX_ARCHIVE_BYTES
from agentserve.replay.bundle.entries import MAX_ENTRIES
from agentserve.replay.bundle.format import META, STEPS

Contents = dict[str, bytes]
Made = Callable[[Contents, Path], None]
"""Writes a zip file of a whole bundle's entries, and damages it."""

_CENTRAL = b"PK\x01\x02"
# offsets in a central directory record, and how wide
_METHOD, _COMPRESSED, _SIZE, _OFFSET = (10, "<H"), (20, "<I"), (24, "<I"), (42, "<I")
_LOCAL_METHOD = (8, "<H")


def write_zip(path: Path, entries: Contents, *more: tuple[zipfile.ZipInfo, bytes]) -> None:
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        warnings.filterwarnings("ignore", "Duplicate name", UserWarning)
        for name, data in entries.items():
            packed.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
        for info, data in more:
            packed.writestr(info, data)


def member(name: str, mode: int = 0) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo("x")
    info.filename = info.orig_filename = name  # the constructor would mend it
    info.external_attr = mode << 16
    return info


def with_member(name: str, data: bytes = b"evil", mode: int = 0) -> Made:
    return lambda entries, path: write_zip(path, entries, (member(name, mode), data))


def in_place_of(entry: str, name: str, data: bytes, mode: int = 0) -> Made:
    def made(entries: Contents, path: Path) -> None:
        rest = {key: value for key, value in entries.items() if key != entry}
        write_zip(path, rest, (member(name, mode), data))

    return made


def records(data: bytes) -> dict[str, int]:
    """Where the central directory's records begin, by their names."""
    found, at = {}, data.find(_CENTRAL)
    while data[at : at + 4] == _CENTRAL:
        name, extra, comment = struct.unpack_from("<HHH", data, at + 28)
        found[data[at + 46 : at + 46 + name].decode("latin-1")] = at
        at += 46 + name + extra + comment
    return found


def patched(*changes: tuple[str, tuple[int, str], int]) -> Made:
    """Say something else in the directory of a proper zip file: (entry, field, value)."""

    def made(entries: Contents, path: Path) -> None:
        write_zip(path, entries)
        data = bytearray(path.read_bytes())
        where = records(bytes(data))
        for entry, (offset, kind), value in changes:
            struct.pack_into(kind, data, where[entry] + offset, value)
        path.write_bytes(data)

    return made


def edited(change: Callable[[bytes], bytes]) -> Made:
    def made(entries: Contents, path: Path) -> None:
        write_zip(path, entries)
        path.write_bytes(change(path.read_bytes()))

    return made


def in_data_of(entry: str) -> Made:
    """Flip a byte in the middle of an entry's packed bytes."""

    def made(entries: Contents, path: Path) -> None:
        write_zip(path, entries)
        data = bytearray(path.read_bytes())
        with zipfile.ZipFile(path) as packed:
            info = packed.getinfo(entry)
        at = info.header_offset + 30 + len(entry) + info.compress_size // 2
        data[at] ^= 0xFF
        path.write_bytes(data)

    return made


def packed_by(method: int) -> Made:
    def made(entries: Contents, path: Path) -> None:
        with zipfile.ZipFile(path, "w", method) as packed:
            for name, data in entries.items():
                packed.writestr(name, data)

    return made


def encrypted(entries: Contents, path: Path) -> None:
    write_zip(path, entries)
    data = bytearray(path.read_bytes())
    at = records(bytes(data))[META]
    data[at + 8] |= 1
    path.write_bytes(data)


def overlapping(entries: Contents, path: Path) -> None:
    """Two names for the same packed bytes: how a small file becomes many large ones."""
    name = "heatmaps/0000.png"
    write_zip(path, {**entries, name: b"x"})
    data = bytearray(path.read_bytes())
    where = records(bytes(data))
    offset = struct.unpack_from("<I", data, where[META] + 42)[0]
    struct.pack_into("<I", data, where[name] + 42, offset)
    path.write_bytes(data)


def many(entries: Contents, path: Path) -> None:
    write_zip(path, {**entries, **{f"heatmaps/{n}": b"" for n in range(MAX_ENTRIES)}})


def talkative(entries: Contents, path: Path) -> None:
    """A directory that is large by its comments."""
    with zipfile.ZipFile(path, "w") as packed:
        for n in range(140):
            info = zipfile.ZipInfo(f"heatmaps/{n}")
            info.comment = bytes(60_000)
            packed.writestr(info, b"")


def as_tar(entries: Contents, path: Path) -> None:
    with tarfile.open(path, "w:gz") as packed:
        for name, data in entries.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            packed.addfile(info, io.BytesIO(data))


def nested(entries: Contents, path: Path) -> None:
    inner = path.with_name("inner")
    write_zip(inner, entries)
    write_zip(path, {"recording.zip": inner.read_bytes()})
    inner.unlink()


def huge(entries: Contents, path: Path) -> None:
    write_zip(path, entries)
    os.truncate(path, MAX_ARCHIVE_BYTES + 1)


def written(data: bytes) -> Made:
    return lambda entries, path: None if path.write_bytes(data) else None


GIB = 1 << 30
NO_ZIP = "no zip file, or a damaged one"
LEADS_OUT = "its name leads out of the recording, or nowhere"
NO_FILE = "it is not a regular file: links and devices are refused"
TWICE = "it is there twice"
METHOD = "it is compressed by a method other than"
PACKED = "cannot be unpacked: "

ARCHIVE_DAMAGES: dict[str, tuple[Made, str]] = {
    "slips out": (with_member("../evil"), rf"\.\./evil: {LEADS_OUT}"),
    "slips out from inside": (with_member("aria/../../evil"), rf"aria/\.\./\.\./evil: {LEADS_OUT}"),
    "slips out as a folder": (with_member("../evil/"), rf"\.\./evil/: {LEADS_OUT}"),
    "absolute": (with_member("/etc/evil"), "/etc/evil: its name is an absolute path"),
    "absolute on a drive": (with_member("C:evil"), "C:evil: its name is an absolute path"),
    "backslashes": (with_member("..\\evil"), r"\.\.\\evil: its name has a backslash"),
    "network share": (with_member("\\\\host\\evil"), r"\\\\host\\evil: its name has a backslash"),
    "dot": (with_member("./evil"), rf"\./evil: {LEADS_OUT}"),
    "two slashes": (with_member("aria//evil"), rf"aria//evil: {LEADS_OUT}"),
    "name with a line break": (with_member("a\nb"), r"'a\\nb': its name is too long or has"),
    "name that steers a terminal": (with_member("\x1b[2J"), r"'\\x1b\[2J': its name is too long"),
    "name with an end inside": (
        edited(lambda data: data.replace(b"meta.json", b"meta.j\0on")),
        r"'meta\.j\\x00on': its name is too long",
    ),
    "name too long": (with_member("n" * 300), r"n+…: its name is too long"),
    "name not UTF-8": (
        lambda entries, path: (
            (
                with_member("ü" * 4)(entries, path),
                path.write_bytes(path.read_bytes().replace("ü".encode() * 4, b"\xff" * 8)),
            )
            and None
        ),
        f"is {NO_ZIP}: .*utf-8",
    ),
    "meta is a link": (
        in_place_of(META, META, b"/etc/passwd", stat.S_IFLNK | 0o777),
        rf"meta\.json: {NO_FILE}",
    ),
    "screenshots are a link": (
        with_member("screenshots", b"/etc", stat.S_IFLNK | 0o777),
        f"screenshots: {NO_FILE}",
    ),
    "device": (with_member("null", b"", stat.S_IFCHR | 0o666), f"null: {NO_FILE}"),
    "pipe": (with_member("wait", b"", stat.S_IFIFO | 0o666), f"wait: {NO_FILE}"),
    "file that says it is a folder": (with_member("odd", b"", stat.S_IFDIR), f"odd: {NO_FILE}"),
    "folder with content": (with_member("aria/"), "aria/: it is a folder with content"),
    "meta twice": (with_member(META, b"{}"), rf"meta\.json: {TWICE}"),
    "names that differ by case": (with_member("META.json", b"{}"), rf"META\.json: {TWICE}"),
    "names that differ by composition": (
        lambda entries, path: write_zip(path, {**entries, "\u00e9": b"", "e\u0301": b""}),
        f"e\u0301: {TWICE}",
    ),
    "encrypted": (encrypted, r"meta\.json: it is encrypted"),
    "bzip2": (packed_by(zipfile.ZIP_BZIP2), rf"meta\.json: {METHOD}"),
    "lzma": (packed_by(zipfile.ZIP_LZMA), rf"meta\.json: {METHOD}"),
    "unknown method": (patched((META, _METHOD, 99)), rf"meta\.json: {METHOD}"),
    "other method than before": (patched((META, _METHOD, 0)), rf"meta\.json: {PACKED}"),
    "too many entries": (many, "more than 40000 entries"),
    "directory too large": (talkative, f"is {NO_ZIP}: .*its directory is larger than"),
    "bomb": (
        lambda entries, path: write_zip(path, {**entries, "network.har": bytes(20 << 20)}),
        r"network\.har: it would be more than 250 times as large",
    ),
    "meta too large": (
        lambda entries, path: write_zip(path, {**entries, META: os.urandom(1 << 20) + b" "}),
        r"meta\.json is larger than 1048576 bytes",
    ),
    "size said too small": (patched((META, _SIZE, 10)), rf"meta\.json: {PACKED}Bad CRC"),
    "size said too large": (
        patched((META, _SIZE, 5_000)),
        r"meta\.json: it has another size than the zip file says",
    ),
    "packed size said too small": (patched((META, _COMPRESSED, 20)), r"meta\.json: "),
    "packed size said too large": (
        patched((META, _COMPRESSED, 5_000)),
        r".*: it overlaps another entry",
    ),
    "more than all may have": (
        lambda entries, path: patched(
            *((entry, field, GIB) for entry in entries for field in (_SIZE, _COMPRESSED))
        )(entries, path),
        "more than 4294967296 bytes when unpacked",
    ),
    "overlapping": (overlapping, r".*: it overlaps another entry of the zip file"),
    "entry beyond the file": (patched((STEPS, _OFFSET, 1_000_000)), r"steps\.jsonl: "),
    "entry in the middle of another": (patched((META, _OFFSET, 3)), r"meta\.json: "),
    "another name in front of it": (
        edited(lambda data: data.replace(b"meta.json", b"mets.json", 1)),
        rf"meta\.json: {PACKED}",
    ),
    "flipped byte in meta": (in_data_of(META), r"meta\.json: "),
    "flipped byte in steps": (in_data_of(STEPS), r"steps\.jsonl: "),
    "cut off": (edited(lambda data: data[: len(data) // 2]), f"is {NO_ZIP}"),
    "cut off in the directory": (edited(lambda data: data[:-40]), f"is {NO_ZIP}"),
    "begun too late": (edited(lambda data: data[500:]), rf".*: {PACKED}"),
    "empty file": (written(b""), f"is {NO_ZIP}"),
    "text": (written(b"hello " * 100), f"is {NO_ZIP}"),
    "tar": (as_tar, f"is {NO_ZIP}"),
    "a pipe": (lambda entries, path: os.mkfifo(path), "is neither a folder nor a regular file"),
    "file too large": (huge, "is larger than 4294967295 bytes"),
    "nothing in it": (lambda entries, path: write_zip(path, {}), r"meta\.json is missing"),
    "zip in a zip": (nested, r"meta\.json is missing"),
    "two recordings": (
        lambda entries, path: write_zip(
            path, {f"{top}/{name}": data for top in "ab" for name, data in entries.items()}
        ),
        r"meta\.json is missing",
    ),
    "too deep": (
        lambda entries, path: write_zip(path, {f"a/b/{n}": data for n, data in entries.items()}),
        r"meta\.json is missing",
    ),
    "no steps": (
        lambda entries, path: write_zip(path, {META: entries[META]}),
        r"steps\.jsonl is missing",
    ),
}
