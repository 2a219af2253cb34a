"""Addresses as a browser shows them. Pure."""

from __future__ import annotations

from urllib.parse import urljoin, urlsplit, urlunsplit


def whole_page(url: str) -> str:
    """The address that a browser shows when it has gone to ``url``: one that ends with the host
    gets a slash."""
    try:
        parts = urlsplit(url)
    except ValueError:  # no address at all: going there fails, as it did
        return url
    if parts.scheme in ("http", "https") and parts.netloc and not parts.path:
        return urlunsplit(parts._replace(path="/"))
    return url


def whole_address(base: str, url: str) -> str:
    """An address as seen from the one at ``base``; without a base, as it is."""
    try:
        return urljoin(base, url)
    except ValueError:
        return url
