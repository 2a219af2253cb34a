"""How many tokens of a worker's context a turn's prompt may take."""

from __future__ import annotations

from agentserve.core.workers import Worker

PROGRAM_TOKENS = 256
"""For what a program writes of its own: roles, rules, the names of the actions."""
CALLS = 2
"""Generation calls of a turn: a thought and an action."""
BYTES_PER_TOKEN = 2
"""Of text that people write; a careful guess, the router has no tokenizer. A text that needs more
is refused by the worker, and the session stays usable."""


def prompt_budget(worker: Worker, max_turn_tokens: int, *texts: str) -> int:
    """Tokens that the transcript and the new screen may take, when ``texts`` and the answers are
    still to come. May be zero or less."""
    assert worker.report is not None
    text_bytes = sum(len(text.encode()) for text in texts)
    return (
        worker.report.context_length
        - PROGRAM_TOKENS
        - CALLS * max_turn_tokens
        - -(-text_bytes // BYTES_PER_TOKEN)
    )
