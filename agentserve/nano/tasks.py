"""The MiniWoB++ tasks that the nano model is trained for, and is judged by.

What asks for more reading than it has learned is left out: words in running text (click-link),
made-up strings beside each other (click-option, click-checkboxes). It sees them in training too.
"""

SINGLE_TURN = (
    "click-test", "click-test-2", "click-button", "click-dialog", "click-dialog-2", "click-tab",
    "click-color", "click-widget", "focus-text", "focus-text-2",
)  # fmt: skip
MULTI_TURN = ("enter-text", "enter-password", "login-user", "click-button-sequence")
TRAINED = SINGLE_TURN + MULTI_TURN
