"""What a benchmark plays: the screens of one session in order, with the text between them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from agentserve.core.actions import points
from agentserve.core.config import MIB
from agentserve.core.errors import InvalidRequest
from agentserve.core.screens import ScreenSpace, Size, screen_space
from agentserve.replay import AgentRun, Recording, Turn, read_recording
from agentserve.vision.screenshots import open_screenshot

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
MAX_BYTES = 32 * MIB


@dataclass(frozen=True)
class Tape:
    """One recorded session, as far as a benchmark needs it."""

    name: str
    screens: tuple[bytes, ...]
    """Files of one size, in the order of the turns."""
    space: ScreenSpace
    run: AgentRun | None = None
    """That it is of. None: of screenshots alone."""

    @property
    def turns(self) -> Sequence[Turn]:
        """Of the recording, those of the screens."""
        return self.run.turns[: len(self.screens)] if self.run else ()

    @property
    def texts(self) -> tuple[str, ...] | None:
        """What the model wrote at each turn. None: nobody knows."""
        return tuple(turn.result.text for turn in self.turns) if self.run else None

    def aimed(self, turn: int) -> list[tuple[int, int]]:
        """(x, y) in model px that the action before the turn aimed at."""
        if not turn or not self.run:
            return []
        return points(self.turns[turn - 1].result.model_action)


def read_tapes(
    folders: Sequence[Path], recordings: Sequence[Path], grid: int, most: int | None = None
) -> list[Tape]:
    """Folders of screenshots, in the order of their names, and recordings; ``grid`` is the edge of
    the model's visual token, in px, ``most`` the most turns of each.

    Raises InvalidRequest for a folder without pictures, BadScreenshot for pictures of different
    sizes or damaged ones, RecordingError.
    """
    if not folders and not recordings:
        raise InvalidRequest(
            "nothing to play", hint="name a folder of screenshots, or a recording by --recording"
        )
    tapes = [_folder(path, grid, most) for path in folders]
    return tapes + [tape_of(read_recording(path), grid, most) for path in recordings]


def _folder(path: Path, grid: int, most: int | None) -> Tape:
    if not path.is_dir():
        raise InvalidRequest(f"there is no folder {path}")
    files = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES)[:most]
    if not files:
        raise InvalidRequest(
            f"{path} has no screenshots", hint=f"files that end in {', '.join(SUFFIXES)}"
        )
    screens = tuple(file.read_bytes() for file in files)
    try:
        with Image.open(io.BytesIO(screens[0])) as image:
            size = Size(width=image.width, height=image.height)
    except OSError as error:
        raise InvalidRequest(f"{files[0]} is not a picture: {error}") from error
    space = screen_space(size, 1.0, grid)
    return Tape(path.name, _checked(screens, space), space)


def tape_of(recording: Recording, grid: int, most: int | None = None) -> Tape:
    """A recording's first ``most`` turns. Raises InvalidRequest when there are none, BadScreenshot,
    RecordingError."""
    run = recording.agent()
    if not run.turns:
        raise InvalidRequest(f"the recording {recording.name} has no steps")
    space = screen_space(run.space.css, run.space.scale, grid)
    screens = tuple(recording.screenshot(turn.screenshot) for turn in run.turns[:most])
    return Tape(recording.name, _checked(screens, space), space, run)


def _checked(screens: tuple[bytes, ...], space: ScreenSpace) -> tuple[bytes, ...]:
    """The model images of the screens."""
    return tuple(
        open_screenshot(screen, space, max_bytes=MAX_BYTES).model_image for screen in screens
    )
