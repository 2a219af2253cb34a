"""What agentserveScreen takes for visible, and what it calls it."""

from __future__ import annotations

from typing import Any

import pytest

AT = "position: absolute; width: 60px; height: 20px; overflow: hidden;"


def named(seen: dict[str, Any]) -> list[tuple[str, str]]:
    return [(element["role"], element["text"]) for element in seen["elements"]]


def texts(seen: dict[str, Any]) -> list[str]:
    return [word[0] for word in seen["words"]]


@pytest.mark.parametrize(
    ("body", "role", "text"),
    [
        ("<button>Okay then</button>", "button", "Okay then"),
        ("<input type=submit value=Send>", "button", "Send"),
        ("<a href='#'>here</a>", "link", "here"),
        ("<span class=alink>there</span>", "link", "there"),
        ("<label>Name: </label><input type=text>", "text field", "Name"),
        ("<label for=x>Age</label><br><input id=x>", "text field", "Age"),
        ("<input placeholder=Search>", "text field", "Search"),
        ("<input type=password>", "password field", ""),
        ("<textarea></textarea>", "text area", ""),
        ("<label><input type=checkbox>Yes</label>", "checkbox", "Yes"),
        ("<input type=radio>No", "radio", "No"),
        ("<select><option>one</select>", "select", ""),
        ("<select size=3><option>two</select>", "option", "two"),
        ("<ul class=ui-tabs-nav><li><a>Tab #1</a></ul>", "tab", "Tab #1"),
        ("<h3>Title</h3>", "heading", "Title"),
        ("<button class=ui-dialog-titlebar-close>Close</button>", "close x", ""),
        ("<svg><circle cx=20 cy=20 r=9 fill=red></svg>", "shape", "red circle"),
        ("<svg><polygon points='0,0 20,0 10,20' fill=blue></svg>", "shape", "blue triangle"),
        ("<svg><text x=20 y=20 fill=lime>k</text></svg>", "shape", "lime k"),
        ("<div style='width:20px;height:20px;background:teal'></div>", "colour square", "teal"),
        ("<div onclick='1'>press</div>", "clickable", "press"),
    ],
)
async def test_every_kind_of_thing_has_its_name(see: Any, body: str, role: str, text: str) -> None:
    assert (role, text) in named(await see(body))


@pytest.mark.parametrize(
    "style",
    [
        "display: none",
        "visibility: hidden",
        "opacity: 0",
        "left: 160px; top: 0",
        "left: 0; top: 210px",
        "left: 0; top: 0; z-index: -1",  # the cover lies over it
    ],
)
async def test_what_cannot_be_seen_is_left_out(see: Any, style: str) -> None:
    cover = f"<div style='{AT} left: 0; top: 0; background: white'></div>"
    seen = await see(f"{cover}<button style='{AT}{style}'>hidden</button>")
    assert named(seen) == []
    assert texts(seen) == []


async def test_a_box_is_the_part_that_its_scrolling_parent_shows(see: Any) -> None:
    seen = await see(
        f"<div style='{AT} left: 10px; top: 10px'>"
        "<button style='position: absolute; left: 20px; top: 5px; width: 90px; height: 90px'>b"
        "</button></div>"
    )
    assert [element["box"] for element in seen["elements"]] == [[30, 15, 70, 30]]


async def test_a_frame_around_other_things_is_no_thing_to_click(see: Any) -> None:
    assert named(await see("<div onclick='1'><button>in</button></div>")) == [("button", "in")]


async def test_controls_tell_their_state(see: Any) -> None:
    seen = await see(
        "<input type=checkbox checked><input value=typed><input type=password value=secret>"
        "<input autofocus value=here><script>document.querySelector('[autofocus]').focus()</script>"
    )
    box, typed, secret, here = seen["elements"]
    assert box["checked"] is True
    assert (typed["value"], secret["value"]) == ("typed", "secret")
    assert [element.get("focused") for element in (typed, here)] == [None, True]
    assert texts(seen) == ["typed", "here"]  # a password's letters are not to be seen


async def test_words_have_an_edge_more_than_letters(see: Any) -> None:
    seen = await see("<p style='margin: 20px 10px'>Click the <b>button</b></p>")
    assert texts(seen) == ["Click", "the", "button"]
    for text, top, bottom, *edges in seen["words"]:
        assert len(edges) == len(text) + 1
        assert edges == sorted(edges)
        assert 20 <= top < bottom <= 40
    assert seen["words"][0][3] == 10


async def test_a_value_stands_where_its_letters_are_drawn(see: Any) -> None:
    """Against the same words as a text, which the browser measures itself."""
    frame = "font: 12px Arial; letter-spacing: 1px; border: 2px solid; padding: 3px; width: 100px"
    control = await see(f"<input style='{frame}' value='ab cde'>")
    text = await see(f"<div style='{frame}; height: 15px'>ab cde</div>")
    assert texts(control) == texts(text) == ["ab", "cde"]
    for mine, own in zip(control["words"], text["words"], strict=True):
        assert mine[3:] == pytest.approx(own[3:], abs=1.1)  # the last edge has no spacing
    centred = await see("<input type=button style='width: 100px; border: 0' value=mid>")
    left, right = centred["words"][0][3], centred["words"][0][-1]
    assert left + right == pytest.approx(100, abs=0.1)


async def test_a_word_that_is_cut_off_is_no_word(see: Any) -> None:
    seen = await see(f"<div style='{AT} left: 0; top: 0; width: 30px'>immeasurable</div>")
    assert texts(seen) == []


async def test_capitals_are_read_as_they_are_drawn(see: Any) -> None:
    assert texts(await see("<p style='text-transform: uppercase'>loud</p>")) == ["LOUD"]
