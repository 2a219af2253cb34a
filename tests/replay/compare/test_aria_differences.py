import time
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, Page

from agentserve.browser.launch import launch_browser
from agentserve.core.errors import RecordingError
from agentserve.replay.bundle.format import MAX_ARIA_BYTES
from agentserve.replay.compare.aria import MAX_PARTS, aria_differences
from agentserve.replay.compare.aria_tree import MAX_DEPTH, MAX_NODES, parse_aria
from agentserve.replay.redaction.snapshots import quoted_placeholders

PAGE = """
- banner:
  - heading "Orders" [level=1]
  - link "Home":
    - /url: /home
- main:
  - 'textbox "Search: all" [disabled]'
  - checkbox "Only open" [checked]
  - list:
    - listitem: one
    - listitem: two
    - listitem: three
  - button "Save"
"""


def shown(recorded: str, replayed: str, **options) -> list[tuple]:
    differences = aria_differences(recorded, replayed, **options)
    assert len(differences) <= 1
    return [
        (part.field, part.message, part.recorded, part.replayed)
        for difference in differences
        for part in difference.parts
    ]


def test_equal_snapshots_do_not_differ():
    assert aria_differences(PAGE, PAGE) == []
    assert aria_differences("", "\n") == []


def test_how_it_is_written_does_not_matter():
    other = """\
# a comment
- banner:
    - "heading \\"Orders\\" [level=1]"
    - 'link "Home"': [{/url: "/home"}]
- main:
    - 'textbox "Search: all" [disabled]'
    - checkbox "Only open" [checked]
    - list: [listitem: one, listitem: two, listitem: "three"]
    - {button "Save": ""}
"""
    assert shown(PAGE, other) == []
    one = '- link "a" [x] [y=2]:\n  - /url: /a\n  - /title: t\n'
    two = '- link "a" [y=2] [x]:\n  - /title: t\n  - /url: /a\n'
    assert shown(one, two) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "listitem: two",
            "listitem: zwei",
            ("main > list > listitem", "text changed", "two", "zwei"),
        ),
        ('"Save"', '"Send"', ("main > button", "name changed", '"Save"', '"Send"')),
        (" [checked]", "", ("main > checkbox", "state changed", "checked", "")),
        (
            "/url: /home",
            "/url: /x",
            ("banner > link", "property changed", "/url: /home", "/url: /x"),
        ),
        (
            "- main:",
            '- dialog "Sure?":\n  - button "Yes"\n- main:',
            ("dialog", "dialog added", None, 'dialog "Sure?"'),
        ),
        (
            "    - listitem: two\n",
            "",
            ("main > list > listitem", "listitem removed", "listitem: two", None),
        ),
        (
            "    - listitem: two\n    - listitem: three\n",
            "    - listitem: three\n    - listitem: two\n",
            ("main > list > listitem", "listitem moved", "listitem: three", "listitem: three"),
        ),
        (
            '  - button "Save"\n',
            '  - button "Save"\n  - button "Save"\n',
            ("main > button", "button added", None, 'button "Save"'),
        ),
    ],
)
def test_what_differs_is_named(old: str, new: str, expected: tuple):
    assert old in PAGE
    assert shown(PAGE, PAGE.replace(old, new)) == [expected]


def test_an_order_that_changed_in_a_long_list_is_no_equality():
    lines = [f'- button "b {i}"\n' for i in range(1000)]
    lines[900], lines[3] = lines[3], lines[900]
    (first, *_) = shown("".join(f'- button "b {i}"\n' for i in range(1000)), "".join(lines))
    assert first[1] == "button moved"


def test_a_node_that_moved_elsewhere_is_one_change():
    moved = PAGE.replace('  - button "Save"\n', "").replace("- main:", '  - button "Save"\n- main:')
    assert shown(PAGE, moved) == [
        ("main > button", "button moved", 'button "Save"', 'button "Save"')
    ]


def test_a_change_deep_inside_is_told_alone():
    """Neither its parents nor what comes behind an added node differ."""
    changed = PAGE.replace("listitem: one", "listitem: uno").replace(
        "- banner:", "- alert: Saved\n- banner:"
    )
    assert shown(PAGE, changed) == [
        ("alert", "alert added", None, "alert: Saved"),
        ("main > list > listitem", "text changed", "one", "uno"),
    ]
    (difference,) = aria_differences(PAGE, changed)
    assert (difference.comparer, difference.field) == ("aria", "aria")
    assert difference.message == "1 added, 1 text changed"


def test_of_several_accepted_snapshots_one_must_be_alike():
    other = PAGE.replace("two", "zwei")
    assert shown(PAGE, other, accepted=[PAGE, other.replace("zwei", "'zwei'")]) == []
    assert shown(PAGE, PAGE, accepted=[other]), "the recorded one is not among them"
    assert shown(PAGE, PAGE, accepted=[PAGE, other]) == []
    assert shown(PAGE, other.replace("Save", "Go"), accepted=[other])


def test_many_changes_are_cut():
    def page(word: str) -> str:
        return "".join(f'- button "{word} {i}"\n' for i in range(MAX_PARTS + 7))

    (difference,) = aria_differences(page("a"), page("b"))
    assert len(difference.parts) == MAX_PARTS
    assert difference.message == f"57 name changed; the first {MAX_PARTS} are listed"


def test_large_pages_take_no_time():
    def page(word: str, step: int) -> str:
        return "".join(f'- button "{word} {i * step % 9973}"\n' for i in range(9973))

    for replayed in (page("a", 1).replace("a 500", "b"), page("b", 1), page("a", 7)):
        begun = time.process_time()
        assert aria_differences(page("a", 1), replayed)
        assert time.process_time() - begun < 10


HOSTILE = {
    "an alias": "- &a text: x\n- *a\n",
    "an anchor": "- &a text: x\n",
    "a tag": '- !!python/object/apply:os.system ["true"]\n',
    "a tagged text": "- text: !!binary aGk=\n",
    "a bomb": "a: &a [x]\nb: &b [*a,*a]\nc: [*b,*b]\n",
    "deep": "".join(f"{'  ' * i}- list:\n" for i in range(MAX_DEPTH + 2)),
    "deep in flow": "[" * 100_000,
    "deep mappings": "- " + "{a: " * 5000,
    "wide": "- text: x\n" * (MAX_NODES + 1),
    "too large": "- text: " + "x" * MAX_ARIA_BYTES,
    "not a list": "heading: x",
    "a text alone": "heading",
    "a list in a list": "- - text: x\n",
    "a mapping in a mapping": "- text:\n    a: b\n",
    "no YAML": '- "heading\n',
    "a control character": "- text: \x00\n",
    "half a character": "- text: \ud800\n",
    "no node": "- heading Orders extra\n",
    "a list as key": "- ? [a]\n  : b\n",
    "two documents": "- text: a\n---\n- - text: b\n",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_is_no_snapshot_is_refused(kind: str):
    begun = time.process_time()
    with pytest.raises(RecordingError, match="the replayed aria snapshot: "):
        aria_differences("- text: a\n", HOSTILE[kind])
    with pytest.raises(RecordingError, match="the recorded aria snapshot: "):
        aria_differences(HOSTILE[kind], "- text: a\n")
    assert time.process_time() - begun < 5


HTML = """
<h1>It's "quoted": yes</h1>
<a href="/x?a=1#b">Link - with: colon</a>
<ul><li>one<ul><li>- nested</li></ul></li><li># two</li><li>/three/</li></ul>
<table><tr><th>A</th><td>1</td></tr></table>
<input aria-label="back\\slash [x]" value="{v}"><input type=checkbox checked aria-label=c>
<select aria-label=s><option>p<option selected>q</select>
<p>Line one<br>line two &amp; more</p><button aria-expanded=true aria-pressed=mixed>&quot;</button>
<textarea aria-label=t>a
b</textarea><iframe srcdoc="<p>in a frame</p>"></iframe>
<details open><summary>S</summary>D</details>
"""


@pytest.fixture(scope="module")
async def page() -> AsyncIterator[Page]:
    async with launch_browser() as browser:
        page = await new_page(browser)
        yield page


async def new_page(browser: Browser) -> Page:
    context = await browser.new_context()
    return await context.new_page()


async def test_a_real_page_is_read_and_compared(page: Page):
    await page.set_content(HTML)
    before = await page.locator("body").aria_snapshot()
    tree = parse_aria(before, "recorded")
    roles = {node.role for node in tree.children}
    assert {"heading", "link", "list", "table", "textbox", "checkbox", "combobox"} <= roles
    assert shown(before, await page.locator("body").aria_snapshot()) == []

    await page.evaluate("document.querySelector('h1').textContent = 'Else'")
    await page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<dialog open>Sure?</dialog>')"
    )
    await page.evaluate("document.querySelector('input[type=checkbox]').checked = false")
    after = shown(before, await page.locator("body").aria_snapshot())
    assert [part[:2] for part in after] == [
        ("heading", "name changed"),
        ("checkbox", "state changed"),
        ("dialog", "dialog added"),
    ]


def test_a_secret_s_placeholder_is_a_text_whether_it_was_put_in_quotes_or_not():
    stored = (
        '- textbox "Token": {{secret:PW}}\n'
        "- list:\n"
        '  - link "a" [active]:\n'
        '    - /url: {{secret:PW}}\\x and "more"\n'
        "  - 'button \"a: it''s {{secret:PW}}\"': {{secret:B_2}}\n"
        '  - text: "k: {{secret:PW}}"\n'
        "  - text: see {{secret:PW}}\n"
    )
    quoted = quoted_placeholders(stored)
    assert quoted != stored and quoted_placeholders(quoted) == quoted
    assert aria_differences(stored, quoted) == []
    box, nodes = parse_aria(quoted, "own").children
    assert box.text == "{{secret:PW}}"
    link, button, _, _ = nodes.children
    assert link.properties == {("/url", '{{secret:PW}}\\x and "more"')}
    assert (button.name, button.text) == ('"a: it\'s {{secret:PW}}"', "{{secret:B_2}}")
    (difference,) = aria_differences(stored, quoted.replace("secret:B_2", "secret:C"))
    assert difference.parts[0].recorded == "{{secret:B_2}}"


def test_hostile_snapshots_are_searched_for_placeholders_in_time():
    begun = time.perf_counter()
    for text in (
        "- " + "a" * 10**6,
        '- a "' + "\\" * 10**6,
        "- a" + " [x]" * 250_000,
        "- '" * 300_000,
    ):
        quoted_placeholders(text)
    assert time.perf_counter() - begun < 10
