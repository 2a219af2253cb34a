"""Which pictures, videos and sounds a worker takes from a request: what it holds, not what it
names.

A server that fetches what it is told to reaches what its clients cannot, and one that opens files
reads its own. SGLang does both by default; with ``--allowed-media-domains`` it fetches from those
only, and checks every redirect and the size.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from agentserve.core.errors import InvalidRequest

LONGEST_PATH = 4096
"""What is longer is no path: PATH_MAX."""
_KINDS = ("image_data", "video_data", "audio_data")
_BASE64 = re.compile(r"[A-Za-z0-9+=][A-Za-z0-9+/=\s]*")
"""Not with a slash in front: SGLang takes that for a path, be it a JPEG's base64."""


def check_media(request: Any, url_of: Callable[[Any], str | None], *, fetches: bool) -> None:
    """Refuse a request that names a file, or a place in the network; of the latter not when the
    worker ``fetches`` from the domains that its operator allows.

    ``request`` is SGLang's, ``url_of`` gives the text of one of its sources. Raises InvalidRequest.
    """
    for kind in _KINDS:
        for source in _flat(getattr(request, kind, None)):
            text = url_of(source)
            if text is None or text.startswith("data:"):
                continue
            if text.startswith(("http://", "https://")):
                if fetches:
                    continue
                raise InvalidRequest(
                    f"{kind} names {text[:100]!r}: this worker fetches nothing",
                    hint="send the bytes as a data: URL, or start the worker with "
                    "--allowed-media-domains",
                )
            # SGLang opens a video or a sound by its path, whatever it looks like
            if kind != "image_data" or not _BASE64.fullmatch(text[:LONGEST_PATH]):
                raise InvalidRequest(
                    f"{kind} is neither a data: URL nor base64: {text[:100]!r}",
                    hint="send the bytes as a data: URL",
                )


def _flat(sources: Any) -> Iterator[Any]:
    if isinstance(sources, list | tuple):
        for source in sources:
            yield from _flat(source)
    elif sources is not None:
        yield sources
