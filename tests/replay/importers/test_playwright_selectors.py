"""Playwright's selector strings as chains."""

from __future__ import annotations

import time

import pytest

from agentserve.core.elements import Selector
from agentserve.replay.importers.playwright_selectors import MAX_CHARS, chain_of, css_string


def css(value: str, **more: object) -> Selector:
    return Selector(engine="css", value=value, **more)


@pytest.mark.parametrize(
    ("text", "chain"),
    [
        ("#a", [css("#a")]),
        ("css=#a", [css("#a")]),
        ("#a >> nth=2", [css("#a", nth=2)]),
        ("#a >> nth=-1", [css("#a", nth=-1)]),
        ("#list >> .row >> nth=0", [css("#list"), css(".row", nth=0)]),
        ("//a[1]", [Selector(engine="xpath", value="//a[1]")]),
        ("xpath=//a", [Selector(engine="xpath", value="//a")]),
        ("text=Save", [Selector(engine="text", value="Save", exact=False)]),
        ("text=it's >> b", [Selector(engine="text", value="it's", exact=False), css("b")]),
        ('text="Save >> all"', [Selector(engine="text", value="Save >> all")]),
        ('internal:text="Save"i', [Selector(engine="text", value="Save", exact=False)]),
        ('internal:text="Say \\"hi\\""s', [Selector(engine="text", value='Say "hi"')]),
        ('internal:label="Search:"i', [Selector(engine="aria", value="Search:", exact=False)]),
        ("internal:role=button", [Selector(engine="aria", value="", role="button")]),
        (
            'internal:role=link[name="Forgot >> \\"it\\"?"i]',
            [Selector(engine="aria", value='Forgot >> "it"?', role="link", exact=False)],
        ),
        (
            'internal:role=link[name="Sign in"s]',
            [Selector(engine="aria", value="Sign in", role="link")],
        ),
        ('internal:testid=[data-testid="a\\"b"s]', [Selector(engine="test_id", value='a"b')]),
        ('internal:testid=[data-qa="save"s]', [css('[data-qa="save"]')]),
        ('internal:attr=[placeholder="First Name"i]', [css('[placeholder*="First Name" i]')]),
        ('internal:attr=[alt="Logo"s]', [css('[alt="Logo"]')]),
        ("id=main", [css('[id="main"]')]),
        (
            'iframe[name="f"] >> internal:control=enter-frame >> #in',
            [css('iframe[name="f"]'), css("#in")],
        ),
        ('#a >> internal:describe="the button"', [css("#a")]),
    ],
)
def test_what_has_an_equal_becomes_it(text: str, chain: list[Selector]) -> None:
    assert chain_of(text) == tuple(chain)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nth=1",
        'div:has-text("x")',
        "div:visible",
        'internal:has-text="x"i',
        'div >> internal:has="[\\"p\\"]"',
        "internal:role=checkbox[checked=true]",
        "internal:role=button[name=/sa.e/i]",
        "internal:text=/sa.e/i",
        "text=/sa.e/",
        "internal:control=any-frame >> #a",
        "internal:control=enter-frame >> #a",
        "#a >> nth=x",
        "#a >> nth=1 >> nth=2",
        "_react=Button",
        " >> ".join(["#a"] * 17),
        "#" + "a" * 2001,
        "#" + "a" * MAX_CHARS,
    ],
)
def test_what_has_none_gives_no_looser_one(text: str) -> None:
    assert chain_of(text) is None


@pytest.mark.parametrize("piece", ['"', "\\", ">>", "text=", '[name="', "a>>", "'`\""])
def test_long_selectors_are_read_in_a_moment(piece: str) -> None:
    begun = time.monotonic()
    for _ in range(20):
        chain_of((piece * MAX_CHARS)[:MAX_CHARS])
    assert time.monotonic() - begun < 2


def test_a_text_stays_one_string_of_css() -> None:
    assert css_string('a"b\\c\nd') == "a\\22 b\\5c c\\a d"
