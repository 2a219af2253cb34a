"""Random sessions against one worker: turns, scrolls, forks, flushes, departures, two at once. A
session that ends is released, and what only it had is free again."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from PIL import ImageChops

from agentserve.core.plans import Piece, TextPiece, VisualItem
from agentserve.core.pruning import Compression

from ..items.asking import Worker
from ..items.pictures import screen
from .sessions import HEIGHT, PARTS, WIDTH, Session, Turn

MAX_SESSIONS = 5
MAX_TOKENS = 260
"""Of a prompt; a longer session ends."""


@dataclass
class Crowd:
    """Sessions that share their first prompt, and what is known of the cache."""

    worker: Worker
    seed: int
    sessions: list[Session] = field(default_factory=list)
    turns: int = 0
    rebuilt: int = 0
    copied: int = 0
    reasons: set[str | None] = field(default_factory=set)
    expect_found: bool = True
    """Whether nothing is ever evicted for want of room."""
    compressions: Sequence[Compression] = (Compression(),)
    """Each turn takes one of them."""
    left_out: int = 0
    """Tokens that were pruned in the model, or never in the prompt."""

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._cached: dict[str, list[Piece]] = {}
        """Owner -> what is left of its last turn, as long as nothing was flushed."""
        self._ended: set[str] = set()
        self._made: dict[str, dict[str, int]] = {}
        """Owner -> a seal's history -> what ran when it was made in place, if it was."""
        self._forked: dict[str, int] = {}
        """Owner -> first tokens that forks begin with, of which the worker has not heard yet."""
        self.count = 0
        """Sessions so far."""
        self.released = 0
        """Tokens that were free again when sessions ended."""
        # the random model might say it, and then a prompt would have more of them than pictures
        unsaid = {str(self.worker.image_token()): -1000.0}
        self._body = {"sampling_params": {"logit_bias": unsaid}}

    def play(self, steps: int, check: Callable[[Crowd], None]) -> None:
        """``check`` is called after every step, when nothing runs."""
        for _ in range(steps):
            self._step()
            check(self)

    def _step(self) -> None:
        chance = self._random.random()
        room = len(self.sessions) < MAX_SESSIONS
        if len(self.sessions) < 2 or (room and chance < 0.15):
            self._begin()
        elif room and chance < 0.25:
            self._fork()
        elif chance > 0.97:
            self.worker.flush()
            self._cached.clear()
        elif chance > 0.8:
            self._turns(self._random.sample(self.sessions, 2))
        else:
            self._turns([self._random.choice(self.sessions)])
        for session in self.sessions:
            if session.live >= MAX_TOKENS or self._random.random() < 0.03:
                self._end(session)
        self.sessions = [s for s in self.sessions if s.owner not in self._ended]

    def _begin(self) -> None:
        session = Session(self.worker, self._name())
        self.sessions.append(session)
        first = screen(self._random.choice((1, 2)), WIDTH, HEIGHT)
        turn = session.turn(first, PARTS, compression=self._compression(), **self._body)
        self._remember(session, turn)

    def _fork(self) -> None:
        """The cache holds what was forked until there is need for room: no one knows when both
        have gone on."""
        parent = self._random.choice(self.sessions)
        fork = parent.fork(self._name())
        if parent.owner in self._cached:
            self._cached[fork.owner] = fork.pieces
            self._made[fork.owner] = dict(self._made[parent.owner])
            start = f"the start of {fork.owner}"
            self._cached[start], self._made[start] = fork.pieces, self._made[fork.owner]
        self._forked[parent.owner] = parent.live - 1  # the last has no KV
        self.sessions.append(fork)

    def _end(self, session: Session) -> None:
        self._ended.add(session.owner)
        self._cached.pop(session.owner, None)
        over = {"id": session.owner, "forked": self._forked.pop(session.owner, 0)}
        body = {"sessions": [over]}
        answer = self.worker.client.post("/agentserve/release", json=body).raise_for_status().json()
        assert answer["running"] == []
        self.released += answer["freed_tokens"]

    def _turns(self, sessions: list[Session]) -> None:
        asked = [(session, *self._change(), self._compression()) for session in sessions]
        lives = [session.live for session in sessions]
        with ThreadPoolExecutor() as pool:
            turns = list(pool.map(lambda entry: entry[0].turn(*entry[1:], **self._body), asked))
        for session, live, turn in zip(sessions, lives, turns, strict=True):
            self._account(session, live, turn)

    def _compression(self) -> Compression:
        return self._random.choice(self.compressions)

    def _change(self) -> tuple:
        seed = self._random.randrange(50)
        if self._random.random() < 0.15:  # a scroll: pixels that were sent before, at other places
            image = screen(100 + seed, WIDTH, HEIGHT)
            return ImageChops.offset(image, 0, self._random.choice((28, 56))), PARTS, "scroll"
        parts = self._random.sample(PARTS, self._random.choice((1, 1, 1, 2, 4)))
        if self._random.random() < 0.3:  # a part of a part
            x, y, width, height = parts[0]
            parts[0] = (x, y, width // 2, height)
        return screen(100 + seed, WIDTH, HEIGHT), parts, "go on"

    def _account(self, session: Session, live: int, turn: Turn) -> None:
        self.turns += 1
        self._forked.pop(session.owner, None)
        self.rebuilt += turn.outcome["rebuilt"]
        self.copied += turn.outcome["copied"]
        self.left_out += turn.outcome["pruned"]
        self.reasons.add(turn.outcome["reason"])
        if self.expect_found and session.owner in self._cached:
            assert turn.answer.cached >= live - 1, (turn.answer, turn.outcome, live)
        self._remember(session, turn)

    def _remember(self, session: Session, turn: Turn) -> None:
        made = self._made.get(session.owner, {}) if session.owner in self._cached else {}
        ran = hash((str(turn.pieces), str(turn.answer.ids[:-1]), str(made)))
        new = _seals(session.pieces) - _seals(turn.pieces)
        self._made[session.owner] = made | dict.fromkeys(new, ran)
        self._cached[session.owner] = session.pieces

    def _name(self) -> str:
        self.count += 1
        return f"{self.seed}-{self.count}"

    @property
    def held(self) -> int:
        """Tokens of what is left of all sessions, each shared beginning counted once."""
        beginnings = {0}
        for owner, pieces in self._cached.items():
            beginning = 0
            for token in list(_tokens(pieces, self._made[owner]))[:-1]:  # the last has no KV
                beginning = hash((beginning, token))
                beginnings.add(beginning)
        return len(beginnings) - 1


def _seals(pieces: list[Piece]) -> set[str]:
    seals = {piece.seal for piece in pieces}
    seals |= {piece.end_seal for piece in pieces if isinstance(piece, VisualItem)}
    return {seal.history for seal in seals if seal is not None}


def _tokens(pieces: list[Piece], made: dict[str, int]) -> Iterator[tuple]:
    """What tells the KV of each token from that of others behind the same tokens."""
    for piece in pieces:
        seal = piece.seal and (piece.seal.history, made.get(piece.seal.history))
        if isinstance(piece, TextPiece):
            yield from ((token, piece.position, seal) for token in piece.ids)
            continue
        yield from ((token, piece.position) for token in piece.begin)
        place = piece.blob, piece.base, piece.box.model_dump_json()
        selection = piece.selection
        merged = selection if selection and selection.pruning.method == "tome" else None
        what = (*place, piece.keep, str(merged), seal)
        yield from ((i, *what) for i in range(piece.tokens))
        seal = piece.end_seal and (piece.end_seal.history, made.get(piece.end_seal.history))
        yield from ((token, seal) for token in piece.end)
