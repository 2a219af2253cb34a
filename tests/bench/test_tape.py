"""Screens for a benchmark, from folders and recordings."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image
from replay.replay_builders import make_steps, record

from agentserve.bench.tape import read_tapes
from agentserve.core.errors import BadScreenshot, InvalidRequest


def screens(folder: Path, *sizes: tuple[int, int]) -> Path:
    folder.mkdir()
    for number, size in enumerate(sizes):
        Image.new("RGB", size, (number, 0, 0)).save(folder / f"{number:03d}.png")
    return folder


def test_a_folder_is_played_in_the_order_of_its_names(tmp_path: Path) -> None:
    folder = screens(tmp_path / "tape", (56, 84), (56, 84), (56, 84))
    (folder / "notes.txt").write_text("not a screen")
    (tape,) = read_tapes([folder], [], 28, most=2)
    assert (tape.name, str(tape.space.model), tape.texts) == ("tape", "56x84", None)
    assert list(tape.screens) == [(folder / name).read_bytes() for name in ("000.png", "001.png")]


async def test_a_recording_is_played_as_it_was(tmp_path: Path) -> None:
    recorder = await record(tmp_path, make_steps(3), id="clicks")
    (tape,) = read_tapes([], [recorder.folder], 28, most=2)
    assert (tape.name, str(tape.space.model), len(tape.screens)) == ("clicks", "224x280", 2)
    assert tape.texts == tuple(f"The button is there.\nclick {56 + n} 84" for n in range(2))
    assert [tape.aimed(turn) for turn in range(2)] == [[], [(56, 84)]]


def test_what_cannot_be_played_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="nothing to play"):
        read_tapes([], [], 28)
    with pytest.raises(InvalidRequest, match="no folder"):
        read_tapes([tmp_path / "none"], [], 28)
    with pytest.raises(InvalidRequest, match="no screenshots"):
        read_tapes([screens(tmp_path / "empty")], [], 28)
    with pytest.raises(BadScreenshot, match="56x56"):
        read_tapes([screens(tmp_path / "mixed", (56, 84), (56, 56))], [], 28)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "0.png").write_bytes(b"\x89PNG broken")
    with pytest.raises(InvalidRequest, match="is not a picture"):
        read_tapes([tmp_path / "bad"], [], 28)
