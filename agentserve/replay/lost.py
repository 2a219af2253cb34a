"""What could not be taken over or given: a thousand steps with one flaw make one sentence."""

from __future__ import annotations

MAX_NOTES = 200
MAX_CHARS = 500
_SHOWN = 8


class Lost:
    """Sentences, each with the steps that it is true of."""

    def __init__(self) -> None:
        self._steps: dict[str, list[int]] = {}

    def add(self, sentence: str, step: int | None = None) -> None:
        """``sentence`` begins in lower case and has no full stop; ``step`` counts from 0."""
        steps = self._steps.setdefault(sentence[:MAX_CHARS], [])
        if step is not None and step not in steps[-1:]:
            steps.append(step)

    def told(self) -> tuple[str, ...]:
        """In the order in which they came up."""
        notes = [_sentence(text, steps) for text, steps in self._steps.items()]
        if len(notes) > MAX_NOTES:
            notes[MAX_NOTES - 1 :] = [f"and {len(notes) - MAX_NOTES + 1} more"]
        return tuple(notes)


def _sentence(text: str, steps: list[int]) -> str:
    if not steps:
        return text
    shown = ", ".join(str(step) for step in steps[:_SHOWN])
    more = f" and {len(steps) - _SHOWN} more" if len(steps) > _SHOWN else ""
    return f"step{'s' if len(steps) > 1 else ''} {shown}{more}: {text}"
