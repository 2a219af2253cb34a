from __future__ import annotations

import pytest

from agentserve.browser.policy import NavigationPolicy, origin_of
from agentserve.core.errors import InvalidRequest

POLICY = NavigationPolicy.of("http://127.0.0.1:8000/start.html", ["https://docs.example.com"])


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("http://127.0.0.1:8000/a?b#c", "http://127.0.0.1:8000"),
        ("https://Example.COM:443/", "https://example.com"),
        ("http://example.com:80", "http://example.com"),
        ("http://user:secret@example.com:81/", "http://example.com:81"),
        ("http://[::1]:9000/", "http://[::1]:9000"),
    ],
)
def test_an_origin_is_written_as_browsers_write_it(url: str, origin: str) -> None:
    assert origin_of(url) == origin


@pytest.mark.parametrize("url", ["file:///etc/passwd", "example.com", "", "http://", "http://a:b/"])
def test_what_is_no_http_address_has_no_origin(url: str) -> None:
    with pytest.raises(InvalidRequest):
        origin_of(url)


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("http://127.0.0.1:8000/other.html", True),
        ("https://docs.example.com/x", True),
        ("about:blank", True),
        ("chrome://newtab/", True),
        ("chrome://settings/", False),
        ("blob:http://127.0.0.1:8000/0d2c", True),
        ("blob:http://127.0.0.1:8001/0d2c", False),
        ("http://127.0.0.1:80000/", False),
        ("http://127.0.0.1/", False),
        ("https://127.0.0.1:8000/", False),
        ("http://127.0.0.1:8000.evil.example/", False),
        ("http://127.0.0.1:8000@evil.example/", False),
        ("https://docs.example.com.evil.example/", False),
        ("file:///etc/passwd", False),
        ("javascript:alert(1)", False),
        ("data:text/html,x", False),
        ("chrome://settings", False),
    ],
)
def test_only_the_given_origins_are_allowed(url: str, allowed: bool) -> None:
    assert POLICY.allows(url) is allowed
    if url.startswith("http"):
        assert bool(POLICY.outside.match(url)) is not allowed


def test_a_relative_address_is_completed_and_a_foreign_one_refused() -> None:
    here = "http://127.0.0.1:8000/a/b.html"
    assert POLICY.resolve(" c.html", here) == "http://127.0.0.1:8000/a/c.html"
    assert POLICY.resolve("/c.html", here) == "http://127.0.0.1:8000/c.html"
    assert POLICY.resolve("//evil.example/c.html", here) is None
    assert POLICY.resolve("file:///etc/passwd", here) is None
    assert POLICY.resolve("about:blank", here) is None
    assert POLICY.resolve("http://[", here) is None
