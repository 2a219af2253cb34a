"""Pictures that a file names, and that lie beside it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agentserve.core.errors import RecordingError
from agentserve.core.screens import Size
from agentserve.replay.bundle.folder import FolderEntries
from agentserve.replay.bundle.format import MAX_SCREENSHOT_BYTES
from agentserve.replay.bundle.png import png_size
from agentserve.replay.importers.account import Account
from agentserve.replay.importers.pictures import png_of

MAX_PICTURES_BYTES = 512 * 2**20
"""Of all pictures of a recording together: they are held until the bundle is written."""
_PLAIN = re.compile(r"[^/\\\x00-\x1f\x7f]{1,255}")


class Pictures:
    """The pictures of a recording, as PNG, by their SHA-256."""

    def __init__(self, folder: Path, account: Account) -> None:
        self.by_sha: dict[str, bytes] = {}
        self._folder = folder
        self._account = account
        self._bytes = 0

    def add(self, data: bytes, what: str) -> str:
        """Raises RecordingError for what is no picture, and for too many bytes in all."""
        png = png_of(data, what)
        sha = hashlib.sha256(png).hexdigest()
        if sha not in self.by_sha:
            self._bytes += len(png)
            if self._bytes > MAX_PICTURES_BYTES:
                raise RecordingError(
                    f"the pictures of this recording have over {MAX_PICTURES_BYTES} bytes",
                    hint="import a part of it, or with smaller pictures",
                )
            self.by_sha[sha] = png
        return sha

    def named(self, name: Any, where: str, *, within: tuple[str, ...] = ("",)) -> str | None:
        """The picture of that name in the folder, or in one of its folders ``within``, which are
        ours and no part of a file. None when it is not there, which is a loss; ``where`` says who
        names it.

        Raises RecordingError for a name that is more than a name, for links, and as ``add``.
        """
        if not isinstance(name, str) or not _PLAIN.fullmatch(name) or name in {".", ".."}:
            raise RecordingError(
                f"{where}: {str(name)[:100]!r} is not the plain name of a picture",
                hint="pictures lie beside the file that names them",
            )
        for folder in within:
            try:
                data = FolderEntries(self._folder).read(f"{folder}{name}", MAX_SCREENSHOT_BYTES)
            except RecordingError as error:
                if isinstance(error.__cause__, FileNotFoundError):
                    continue
                raise
            return self.add(data, name)
        self._account.lose(f"{where}: the picture {name[:200]!r} is missing")
        return None

    def viewport(self, screens: Iterable[str | None], assumed: Size) -> Size:
        """The first one's size; that others have another is a loss, and that there is none."""
        sizes = [self.size(sha) for sha in screens if sha]
        if not sizes:
            self._account.lose(f"no picture tells the screen's size; {assumed} is assumed")
            return assumed
        for number, size in enumerate(sizes, start=1):
            if size != sizes[0]:
                self._account.lose(f"picture {number} has {size} px, the first one {sizes[0]}")
        return sizes[0]

    def size(self, sha: str) -> Size:
        """Of a picture, in px."""
        return png_size(self.by_sha[sha])
