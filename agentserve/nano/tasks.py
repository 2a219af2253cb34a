"""The MiniWoB++ tasks that the nano model is trained for, and is judged by."""

SINGLE_TURN = (
    "click-test", "click-test-2", "click-button", "click-link", "click-dialog", "click-dialog-2",
    "click-tab", "click-color", "click-widget", "focus-text", "focus-text-2",
)  # fmt: skip
MULTI_TURN = (
    "enter-text", "enter-password", "login-user", "click-option", "click-checkboxes",
    "click-button-sequence",
)  # fmt: skip
TRAINED = SINGLE_TURN + MULTI_TURN
