"""Aria snapshots without passwords."""

from __future__ import annotations

from typing import Any

import pytest

from agentserve.browser.aria import HIDDEN, without


@pytest.mark.parametrize("secret", ["geheim", 'a "quoted": word', "- textbox: x", "  two  spaces "])
async def test_passwords_are_hidden_and_other_fields_are_not(open_page: Any, secret: str) -> None:
    async with open_page("elements.html") as computer:
        await computer.load()
        await computer.page.evaluate(
            """secret => {
              const root = document.querySelector('my-card').shadowRoot;
              root.innerHTML += '<label>Pin <input type=password></label>';
              root.querySelector('input').value = secret;
              document.querySelector('[name=city]').value = 'Oslo';
            }""",
            secret,
        )
        snapshot = await computer.aria()
        assert f'- textbox "Pin": {HIDDEN}' in snapshot
        assert '- textbox "City": Oslo' in snapshot
        assert secret.strip() not in snapshot


def test_only_fields_are_changed() -> None:
    snapshot = '- text: geheim\n- textbox "geheim": other\n- textbox: geheim'
    assert (
        without(snapshot, {"geheim"})
        == f'- text: geheim\n- textbox "geheim": other\n- textbox: {HIDDEN}'
    )
