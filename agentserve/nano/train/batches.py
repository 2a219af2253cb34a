"""From shards of records to tensors. A batch is a pure function of (seed, step, shards seen)."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from agentserve.nano import recipe
from agentserve.nano.collect import Shards
from agentserve.nano.network import Sequences
from agentserve.nano.tasks import TRAINED
from agentserve.nano.train.prompts import (
    Answer,
    Speller,
    Tokens,
    write_episode,
    write_single,
)
from agentserve.nano.train.questions import oracle_answer, questions_of, retyped
from agentserve.nano.train.targets import PictureTargets, picture_targets

FIXED_LAYOUT = (
    "enter-text", "enter-password", "login-user", "focus-text", "focus-text-2", "click-dialog-2",
    "click-tab",
)  # fmt: skip
"""Tasks whose pages hardly differ: a few hundred screens show all there is to them."""
HELD_OUT = 50
"""Of the collected seeds, every HELD_OUT-th is for watching the training only."""
QUESTIONS = 6
NEAR = 3
"""How many bins left and right of the right one share a coordinate's probability."""
_PAD = -1


@dataclass(frozen=True)
class Batch:
    """N pictures, B sequences of L tokens, M learned tokens, T tokens a picture."""

    pixels: Tensor
    """uint8 [N, H, W, 3]."""
    sequences: Sequences
    learned: Tensor
    """int64 [M]: places of the tokens *before* the learned ones in the flattened [B * L]."""
    goals: Tensor
    """int64 [M, 2 * NEAR + 1]: tokens that are right at a place …"""
    weights: Tensor
    """float32, same shape: … and how much; rows sum to one."""
    characters: Tensor
    words: Tensor
    roles: Tensor
    places: Tensor
    """Per picture, stacked: see targets.PictureTargets."""
    clicks: list[tuple[int, Answer, str]]
    """For watching: row of ``learned`` of a click's x (y is the next), the answer, the task."""


@dataclass(frozen=True)
class _Sample:
    tokens: Tokens
    records: list[int]
    """Numbers of the records whose screens stand in ``tokens``, in order."""
    task: str


class BatchMaker:
    """Draws batches from shards."""

    def __init__(self, shards: Shards, speller: Speller, seed: int) -> None:
        self._shards = shards
        self._speller = speller
        self._seed = seed
        self._singles: list[int] = []
        self._episodes: list[list[int]] = []
        self._kept: list[int] = []
        self._kept_episodes: list[list[int]] = []
        self._read = 0
        self.prefix = torch.tensor(speller.prefix())

    def refresh(self) -> int:
        """Take in what was collected since. Returns how many screens can be drawn from."""
        self._shards.refresh()
        last: tuple[str, int, int] | None = None
        episode: list[int] = []
        for index in range(self._read, len(self._shards)):
            record = self._shards.record(index)
            key = (record["task"], record["seed"], record["turn"] - 1)
            kept = record["seed"] % HELD_OUT == 0
            if record["turn"] == 0:
                (self._kept if kept else self._singles).append(index)
                episode = [index]
            elif key == last:
                episode.append(index)
                if len(episode) == 2:
                    (self._kept_episodes if kept else self._episodes).append(episode)
            last = (record["task"], record["seed"], record["turn"])
        self._read = len(self._shards)
        return len(self._singles) + sum(map(len, self._episodes))

    def single(self, step: int, size: int, held_out: bool = False) -> Batch:
        """``size`` pictures with up to QUESTIONS questions each."""
        chance = random.Random(f"{self._seed}/{step}/single")
        pool = self._kept if held_out else self._singles
        samples: list[_Sample] = []
        while len(samples) < size:
            record = self._shards.record(index := chance.choice(pool))
            if chance.random() >= weight_of(record):
                continue
            questions = questions_of(record, 1 if held_out else QUESTIONS, chance)
            if questions:
                tokens = write_single(self._speller, *_grid(record), questions)
                samples.append(_Sample(tokens, [index], record["task"]))
        return self._batch(samples)

    def episodes(self, step: int, pictures: int, held_out: bool = False) -> Batch:
        """About ``pictures`` screens of whole episodes, with all screens shown or one only."""
        chance = random.Random(f"{self._seed}/{step}/episodes")
        pool = self._kept_episodes if held_out else self._episodes
        samples: list[_Sample] = []
        keep_all = chance.random() < 0.5
        shown = 0
        while shown < pictures:
            episode = chance.choice(pool)
            if not keep_all:
                episode = episode[: chance.randint(1, len(episode))]
            visible = [keep_all or i == len(episode) - 1 for i in range(len(episode))]
            records = [self._shards.record(i) for i in episode]
            answers = [oracle_answer(record) for record in records]
            goal = records[0]["goal"]
            if not held_out and chance.random() < 0.6:
                goal, answers = retyped(goal, answers, chance)
            tokens = write_episode(self._speller, *_grid(records[0]), goal, answers, visible)
            screens = [episode[i] for i in tokens.pictures]
            samples.append(_Sample(tokens, screens, records[0]["task"]))
            shown += len(screens)
        return self._batch(samples)

    @property
    def has_episodes(self) -> bool:
        return bool(self._episodes and self._kept_episodes)

    def _batch(self, samples: Sequence[_Sample]) -> Batch:
        records = [self._shards.record(i) for sample in samples for i in sample.records]
        pictures = [_pixels(self._shards.png(i)) for sample in samples for i in sample.records]
        targets = [picture_targets(r, *_grid(r), self._speller) for r in records]
        learned, goals, weights, clicks = self._goals(samples)
        return Batch(
            pixels=torch.from_numpy(np.stack(pictures)),
            sequences=self._sequences(samples),
            learned=torch.tensor(learned),
            goals=torch.tensor(goals),
            weights=torch.tensor(weights, dtype=torch.float32),
            clicks=clicks,
            **_stacked(targets),
        )

    def _sequences(self, samples: Sequence[_Sample]) -> Sequences:
        length = _padded(samples)
        count = len(samples)
        ids = np.full((count, length), self._speller.nothing, np.int64)
        positions = np.zeros((3, count, length), np.int64)
        branch = np.full((count, length), _PAD, np.int64)
        for row, sample in enumerate(samples):
            n = len(sample.tokens.ids)
            ids[row, :n] = sample.tokens.ids
            positions[:, row, :n] = np.array(sample.tokens.positions).T
            branch[row, :n] = sample.tokens.branch
        same = branch[:, :, None] == branch[:, None, :]
        visible = (same | (branch[:, None, :] == 0)) & np.tri(length, dtype=bool)
        visible |= np.eye(length, dtype=bool)
        return Sequences(
            self.prefix,
            torch.from_numpy(ids),
            torch.from_numpy(positions),
            torch.from_numpy(visible),
        )

    def _goals(self, samples: Sequence[_Sample]) -> tuple[list, list, list, list]:
        length = _padded(samples)
        learned: list[int] = []
        goals: list[list[int]] = []
        weights: list[list[float]] = []
        clicks: list[tuple[int, Answer, str]] = []
        for row, sample in enumerate(samples):
            tokens = sample.tokens
            starts = dict(tokens.answers)
            answer, click_at = None, -1
            for place, is_learned in enumerate(tokens.learned):
                if not is_learned:
                    continue
                if place in starts:
                    answer = starts[place]
                    click_at = place + self._click_offset(answer)
                token = tokens.ids[place]
                if answer and answer.box and place in (click_at, click_at + 1):
                    axis = place - click_at
                    ids, shares = self._near(answer, axis)
                    if axis == 0:
                        clicks.append((len(learned), answer, sample.task))
                else:
                    ids, shares = [token], [1.0]
                rest = 2 * NEAR + 1 - len(ids)
                goals.append(ids + [token] * rest)
                weights.append(shares + [0.0] * rest)
                learned.append(row * length + place - 1)
        return learned, goals, weights, clicks

    def _click_offset(self, answer: Answer) -> int:
        """Where in an answer's tokens a click's x stands."""
        return len(self._speller.encode(answer.thought)) + 2

    def _near(self, answer: Answer, axis: int) -> tuple[list[int], list[float]]:
        """The bins around a coordinate that lie well inside the target, and their weights."""
        assert answer.box is not None
        middle = int(answer.action.split()[1 + axis])
        low, high = answer.box[axis], answer.box[axis + 2]
        wide = max((high - low) / 6, 2.0)
        ids, shares = [], []
        for k in range(-NEAR, NEAR + 1):
            value = middle + k * recipe.BIN
            token = self._speller.word(f"Ġ{value}")
            inside = k == 0 or low + 1 < value < high - 1
            if token is not None and inside:
                ids.append(token)
                shares.append(float(np.exp(-((k * recipe.BIN / wide) ** 2) / 2)))
        total = sum(shares)
        return ids, [share / total for share in shares]


def weight_of(record: dict[str, Any]) -> float:
    """How often a screen is drawn, compared with an unstyled one of a task.

    Styled screens and the synthetic page teach reading in general; they are harder than what the
    tasks show, and there is not time enough to learn all of it. Likewise other tasks' pages.
    """
    weight = 0.1 if record.get("augmented") else 1.0
    if record["task"] not in TRAINED:
        return weight * 0.2
    return weight * (0.3 if record["task"] in FIXED_LAYOUT else 1.0)


def _grid(record: dict[str, Any]) -> tuple[int, int]:
    """Rows and columns of tokens of the record's screen."""
    width, height = record.get("size", (224, 280))
    return height // recipe.GRID, width // recipe.GRID


def _pixels(png: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(png)) as image:
        return np.asarray(image.convert("RGB"))


def _padded(samples: Sequence[_Sample]) -> int:
    """A multiple of 32: few different shapes, so that compiled kernels are reused."""
    return -(-max(len(sample.tokens.ids) for sample in samples) // 32) * 32


def _stacked(targets: list[PictureTargets]) -> dict[str, Tensor]:
    return {
        name: torch.from_numpy(np.stack([getattr(target, name) for target in targets]))
        for name in ("characters", "words", "roles", "places")
    }
