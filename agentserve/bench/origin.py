"""What a report must say for its figures to be made again."""

from __future__ import annotations

from agentserve.core.model import Wire


class Origin(Wire):
    command: str
    """As it was typed, but for the folders of absolute paths: they are one machine's."""
    commit: str | None
    """Of the checkout, with ``+`` behind it when it was changed; None outside of one."""
