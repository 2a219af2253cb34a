import pytest

from agentserve.core.actions.recorded import (
    RECORDED_ACTION_ADAPTER,
    ClickElement,
    HoverElement,
    ScrollTo,
    SwitchTab,
    WaitFor,
    describe,
)


@pytest.mark.parametrize(
    ("action", "line"),
    [
        (ClickElement(), "click_element"),
        (ClickElement(button="right", clicks=2), 'click_element "right" 2'),
        (HoverElement(), "hover_element"),
        (ScrollTo(y=120), "scroll_to 120.0"),
        (SwitchTab(index=1), "switch_tab 1"),
        (WaitFor(text="Saved", visible=True), 'wait_for "Saved"'),
    ],
)
def test_acts_on_elements_cross_the_wire_and_are_told_in_a_line(action, line):
    data = RECORDED_ACTION_ADAPTER.dump_json(action)
    assert RECORDED_ACTION_ADAPTER.validate_json(data, strict=True) == action
    assert describe(action) == line
