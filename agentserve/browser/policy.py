"""Where the model may go: a set of origins, checked before and after every navigation. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

from agentserve.core.errors import InvalidRequest

_DEFAULT_PORTS = {"http": 80, "https": 443}
_BLANK = ("about:blank", "about:srcdoc", "", "chrome://newtab/", "chrome://new-tab-page/")
"""Of a tab that nobody has gone anywhere with, the last two in a person's window."""


def origin_of(url: str) -> str:
    """``scheme://host[:port]`` of an http(s) URL, as browsers write it.

    Raises InvalidRequest for every other scheme and for what is not a URL.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidRequest(f"{url[:200]!r} is not a URL: {error}") from error
    if parts.scheme not in _DEFAULT_PORTS or not host:
        raise InvalidRequest(
            f"{url[:200]!r} is not an http or https address",
            hint="write it as http://HOST/; `python3 -m http.server` serves local files",
        )
    if ":" in host:
        host = f"[{host}]"
    explicit = "" if port in (None, _DEFAULT_PORTS[parts.scheme]) else f":{port}"
    return f"{parts.scheme}://{host}{explicit}"


@dataclass(frozen=True)
class NavigationPolicy:
    """The origins a run may show. Everything else is refused, other schemes included."""

    origins: tuple[str, ...]

    @classmethod
    def of(cls, start_url: str, allow: Iterable[str] = ()) -> NavigationPolicy:
        """The start page's origin and those of ``allow`` (URLs or bare origins)."""
        return cls(tuple(dict.fromkeys(origin_of(url) for url in (start_url, *allow))))

    def allows(self, url: str) -> bool:
        """Whether a page at ``url`` may be shown. An empty page shows nothing, so it may."""
        if url in _BLANK:
            return True
        if url.startswith("blob:"):  # made by a page that was allowed; carries its origin
            url = url.removeprefix("blob:")
        try:
            return origin_of(url) in self.origins
        except InvalidRequest:
            return False

    def resolve(self, url: str, base: str) -> str | None:
        """A URL the model wrote, made absolute by the page's own; None when it is refused."""
        try:
            absolute = urljoin(base, url.strip())
            origin_of(absolute)
        except (InvalidRequest, ValueError):
            return None
        return absolute if self.allows(absolute) else None

    @property
    def outside(self) -> re.Pattern[str]:
        """Matches every URL of another origin, as the browser writes URLs."""
        inside = "|".join(re.escape(origin) for origin in self.origins)
        return re.compile(rf"^(?!(?:{inside})(?:[/?#]|$))")

    def __str__(self) -> str:
        return ", ".join(self.origins)
