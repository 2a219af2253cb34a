"""Token ids of the prompts that the nano model is trained on: those of ``programs/navigator.py``.

A sequence is a prefix that all share (the system text) and spans behind it. Spans of branch 0 are
seen by everything after them; those of a branch k > 0 only by themselves, so that several
questions can stand behind one picture without seeing each other::

    prefix │ <user> picture │ task 1, answer 1 │ task 2, answer 2 │ …
           └─ branch 0 ─────┴─ branch 1 ───────┴─ branch 2 ───────┘
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from agentserve.nano.tokenizer import build_tokenizer

NAVIGATOR_RULES = """\
You operate a web page. Answer each screen with one line of thought and one action:
click X Y | double_click X Y | hover X Y | drag X Y X Y | scroll X Y DX DY | type "TEXT" |
key KEYS | wait SECONDS | navigate "URL" | back | done success "TEXT" | call_user "TEXT"
X Y are pixels of the screen."""
"""As in programs/navigator.py; a test keeps the two equal."""


class Speller:
    """The nano tokenizer for training: text never becomes a special token."""

    def __init__(self) -> None:
        self._tokenizer = build_tokenizer()
        self._tokenizer.encode_special_tokens = True
        self.size = self._tokenizer.get_vocab_size()
        self.image = self.special("<|image_pad|>")
        self.nothing = self.special("<|endoftext|>")
        self.role_end = self.special("<|im_end|>")
        self.encode = lru_cache(maxsize=200_000)(self._encode)

    def special(self, token: str) -> int:
        return self._tokenizer.token_to_id(token)

    def word(self, text: str) -> int | None:
        """The id of a text that is one token."""
        return self._tokenizer.token_to_id(text)

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text).ids)

    def begin(self, role: str) -> tuple[int, ...]:
        return (self.special("<|im_start|>"), *self.encode(f"{role}\n"))

    def end(self) -> tuple[int, ...]:
        return (self.role_end, *self.encode("\n"))

    def prefix(self) -> tuple[int, ...]:
        return (*self.begin("system"), *self.encode(NAVIGATOR_RULES), *self.end())


@dataclass(frozen=True)
class Answer:
    """What the model should say: a line of thought, an action in the compact dialect."""

    thought: str
    action: str
    box: tuple[float, float, float, float] | None = None
    """Where a click counts as right, in model px (left, top, right, bottom)."""


@dataclass
class Tokens:
    """One training sequence behind the prefix, in parallel lists of one entry a token."""

    ids: list[int] = field(default_factory=list)
    branch: list[int] = field(default_factory=list)
    positions: list[tuple[int, int, int]] = field(default_factory=list)
    learned: list[int] = field(default_factory=list)
    """1 where the token is part of an answer that is learned."""
    answers: list[tuple[int, Answer]] = field(default_factory=list)
    """Each learned answer and the index of its first token."""
    pictures: list[int] = field(default_factory=list)
    """Which pictures stand in the sequence, in order; numbers are the caller's."""


class Writer:
    """Writes one sequence; positions follow Qwen2.5-VL's M-RoPE."""

    def __init__(self, speller: Speller, rows: int, columns: int, start: int) -> None:
        """Pictures are ``rows`` x ``columns`` tokens; ``start`` is the prefix's length."""
        self._speller = speller
        self._rows, self._columns = rows, columns
        self._next = start
        self._branch = 0
        self.sequence = Tokens()

    def branch(self, number: int, position: int) -> None:
        """What follows belongs to branch ``number`` and begins at a text position."""
        self._branch, self._next = number, position

    @property
    def position(self) -> int:
        return self._next

    def tokens(self, ids: Sequence[int], learned: bool = False) -> None:
        out = self.sequence
        for token in ids:
            out.ids.append(token)
            out.branch.append(self._branch)
            out.positions.append((self._next,) * 3)
            out.learned.append(int(learned))
            self._next += 1

    def picture(self, number: int) -> None:
        """A picture between its vision markers."""
        base = self._next + 1
        self.tokens([self._speller.special("<|vision_start|>")])
        out = self.sequence
        for y in range(self._rows):
            for x in range(self._columns):
                out.ids.append(self._speller.image)
                out.branch.append(self._branch)
                out.positions.append((base, base + y, base + x))
                out.learned.append(0)
        out.pictures.append(number)
        self._next = base + max(self._rows, self._columns)
        self.tokens([self._speller.special("<|vision_end|>")])

    def question(self, task: str) -> None:
        """The rest of a user message, up to where the model goes on."""
        if task:
            self.tokens(self._speller.encode(f"Task: {task}"))
        self.tokens(self._speller.end())
        self.tokens(self._speller.begin("assistant"))

    def answer(self, answer: Answer, learned: bool = True) -> None:
        """The model's words. The line end behind the thought is the model's too (its stop)."""
        if learned:
            self.sequence.answers.append((len(self.sequence.ids), answer))
        spell = self._speller.encode
        self.tokens(spell(answer.thought), learned)
        self.tokens(spell("\n"), learned)
        self.tokens(spell(answer.action), learned)
        self.tokens([self._speller.role_end], learned)

    def next_message(self) -> None:
        """Between an answer and the next screen."""
        self.tokens(self._speller.encode("\n"))
        self.tokens(self._speller.begin("user"))


def write_single(
    speller: Speller, rows: int, columns: int, questions: Sequence[tuple[str, Answer]]
) -> Tokens:
    """One picture (number 0) and independent first-turn questions behind it."""
    writer = Writer(speller, rows, columns, len(speller.prefix()))
    writer.tokens(speller.begin("user"))
    writer.picture(0)
    behind = writer.position
    for number, (task, answer) in enumerate(questions, 1):
        writer.branch(number, behind)
        writer.question(task)
        writer.answer(answer)
    return writer.sequence


def write_episode(
    speller: Speller,
    rows: int,
    columns: int,
    task: str,
    answers: Sequence[Answer],
    shown: Sequence[bool],
) -> Tokens:
    """The turns of an episode; turn i's picture (number i) is in the prompt where ``shown[i]``.

    Answers to screens that are not shown are part of the prompt, but not learned.
    """
    writer = Writer(speller, rows, columns, len(speller.prefix()))
    for turn, (answer, visible) in enumerate(zip(answers, shown, strict=True)):
        if turn == 0:
            writer.tokens(speller.begin("user"))
        else:
            writer.next_message()
        if visible:
            writer.picture(turn)
        writer.question(task if turn == 0 else "")
        writer.answer(answer, learned=visible)
    return writer.sequence
