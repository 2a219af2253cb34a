"""The methods inside the model, computed again: the layers of transformers' model one by one, with
attention written out as whole matrices, for one prompt at a time.

Nothing of ``agentserve.engine.pruning`` or ``agentserve.kernels`` is used here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import apply_rotary_pos_emb

from agentserve.core.item_urls import kept_tokens
from agentserve.core.pruning import Pruning

from ..items.reference import Reference
from .prompts import Prompt


@dataclass
class Pass:
    """A prompt half way through the layers."""

    rows: np.ndarray  # tokens of the prompt that are still there
    hidden: Tensor  # [rows, width]
    positions: Tensor  # [3, rows]
    weights: Tensor | None = None  # [heads, rows, rows]: of the last layer that ran


Cache = list[tuple[Tensor, Tensor]]
"""Of every layer keys and values, [heads, tokens, size]."""


@dataclass(frozen=True)
class Expected:
    kept: list[list[int]]
    """Of each picture to choose from."""
    logprobs: Tensor
    """[answer, vocabulary]"""
    left: np.ndarray
    """The tokens to choose from that are left, counted among them, ascending."""
    scores: Tensor
    """Of these: the mean over all layers, all heads and the last rows of what attends to them."""
    rows: np.ndarray
    """The prompt's tokens that are left."""
    cache: Cache
    """Of these, and of the answer but its last token."""


class PrunedReference:
    def __init__(self, reference: Reference) -> None:
        self._reference = reference
        self._text = reference.model.model.language_model
        self._head = reference.model.lm_head

    @torch.no_grad()
    def answer(
        self,
        prompt: Prompt,
        pruning: Pruning | None,
        stages: list[int],
        output: list[int],
        rows: int = 1,
        before: Cache | None = None,
        keeps_early: bool = False,
    ) -> Expected:
        """``stages``: before which layers; ``output``: the answer whose tokens are asked for;
        ``rows``: how many of the last ones the scores are of; ``before``: the KV of the prompt's
        first tokens, which are not computed then; ``keeps_early``: the answer still sees, in the
        layers before a stage, what it dropped, as in the papers."""
        embedded = self._embedded(prompt)
        self._before = before
        known = self._known
        self._voices = len(prompt.layout.ids) - 1 - int(prompt.open[-1][-1])
        candidates = np.concatenate(prompt.open)
        self._visual, self._spoken = embedded[candidates], embedded[-self._voices :]
        self._items = np.repeat(np.arange(len(prompt.open)), [len(span) for span in prompt.open])
        state = Pass(
            np.arange(known, len(prompt.layout.ids)),
            embedded[known:],
            torch.from_numpy(prompt.layout.positions)[:, known:],
        )
        left = np.arange(len(candidates))
        layers: list[tuple[Tensor, Tensor, np.ndarray]] = []
        received = torch.zeros(len(embedded))
        for number, layer in enumerate(self._text.layers):
            if pruning is not None and number in stages and pruning.ratio > 0:
                stage = stages.index(number)
                share = (1 - pruning.ratio) ** ((stage + 1) / len(stages))
                keep = len(candidates) - math.floor(len(candidates) * (1 - share) + 1e-9)
                places = np.searchsorted(state.rows, candidates[left])
                chosen = self._stage(pruning, stage, keep, state, places, left, layer)
                dropped = np.delete(places, chosen)
                stays = np.delete(np.arange(len(state.rows)), dropped)
                left = left[chosen]
                state = Pass(state.rows[stays], state.hidden[stays], state.positions[:, stays])
            k, v = self._run(number, layer, state)
            layers.append((k, v, np.concatenate((np.arange(known), state.rows))))
            received[state.rows] += state.weights[:, -min(rows, self._voices) :].mean((0, 1))
        gone = np.setdiff1d(candidates, candidates[left])
        lost = gone[:0] if keeps_early else gone
        cache = [tuple(_without(each, own, lost) for each in (k, v)) for k, v, own in layers]
        logprobs = self._answer(prompt, state.hidden[-1:], cache, output)
        kept, start = [], 0
        for span in prompt.open:
            own = left[(left >= start) & (left < start + len(span))] - start
            kept.append(own.tolist())
            start += len(span)
        scores = received[candidates[left]] / len(layers)
        return Expected(kept, logprobs, left, scores, layers[-1][2], cache)

    @torch.no_grad()
    def go_on(
        self, expected: Expected, rows: np.ndarray, ids: list[int], first: int, output: list[int]
    ) -> Tensor:
        """Log probabilities [output, vocabulary] of the answer ``output`` to a prompt that goes on
        with ``ids``, whose first is at position ``first``, behind what is in the cache; of the
        earlier prompt's tokens only ``rows`` are left there."""
        places = np.searchsorted(expected.rows, rows)
        answered = np.arange(len(expected.rows), expected.cache[0][0].shape[1])
        stays = torch.from_numpy(np.concatenate((places, answered)))
        cache = [(k[:, stays], v[:, stays]) for k, v in expected.cache]
        tokens = torch.tensor([*ids, *output[:-1]])
        positions = (first + torch.arange(len(tokens))).expand(3, -1)
        embedded = self._reference.model.get_input_embeddings()(tokens)
        hidden = self._extend(embedded, positions, cache)[-len(output) :]
        return self._head(self._text.norm(hidden)).log_softmax(-1)

    def _embedded(self, prompt: Prompt) -> Tensor:
        embedded = self._reference.model.get_input_embeddings()(torch.tensor(prompt.layout.ids))
        for picture, span in zip(prompt.pictures, prompt.layout.spans, strict=True):
            whole = self._reference.embeddings(picture.image)
            if picture.meta.keep is not None:
                whole = whole[kept_tokens(picture.meta.keep, picture.tokens)]
            embedded[span.start : span.end] = whole
        return embedded

    def _heads(self, layer, hidden: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values [heads, rows, size], rotated, keys and values repeated."""
        attention, rows = layer.self_attn, len(hidden)
        normed = layer.input_layernorm(hidden)
        split = [
            project(normed).view(1, rows, -1, attention.head_dim).transpose(1, 2)
            for project in (attention.q_proj, attention.k_proj, attention.v_proj)
        ]
        cos, sin = self._text.rotary_emb(normed[None], positions[:, None])
        q, k = apply_rotary_pos_emb(split[0], split[1], cos, sin)
        repeat = attention.num_key_value_groups
        return q[0], k[0].repeat_interleave(repeat, 0), split[2][0].repeat_interleave(repeat, 0)

    def _run(self, number: int, layer, state: Pass) -> tuple[Tensor, Tensor]:
        q, k, v = self._heads(layer, state.hidden, state.positions)
        k, v = self._behind(number, k, v)
        weights = _attention(q, k, self._known + torch.arange(len(state.rows)))
        state.weights = weights[:, :, self._known :]
        mixed = (weights @ v).transpose(0, 1).flatten(1)
        state.hidden = state.hidden + layer.self_attn.o_proj(mixed)
        state.hidden = state.hidden + layer.mlp(layer.post_attention_layernorm(state.hidden))
        return k, v

    @property
    def _known(self) -> int:
        """How many of the prompt's tokens are not computed."""
        return 0 if self._before is None else self._before[0][0].shape[1]

    def _behind(self, number: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        if self._before is None:
            return k, v
        old_k, old_v = self._before[number]
        return torch.cat((old_k, k), 1), torch.cat((old_v, v), 1)

    def _answer(self, prompt, hidden: Tensor, cache: Cache, output: list[int]) -> Tensor:
        """The dropped tokens are gone from every layer by now; the cache gets the answer's."""
        logits = [self._head(self._text.norm(hidden))[0]]
        for number, token in enumerate(output[:-1]):
            embedded = self._reference.model.get_input_embeddings()(torch.tensor([token]))
            position = torch.full((3, 1), prompt.layout.next_position + number)
            hidden = self._extend(embedded, position, cache)
            logits.append(self._head(self._text.norm(hidden))[0])
        return torch.stack(logits).log_softmax(-1)

    def _extend(self, hidden: Tensor, positions: Tensor, cache: Cache) -> Tensor:
        """Run rows that follow what is in the cache, and put them into it."""
        for number, layer in enumerate(self._text.layers):
            q, k, v = self._heads(layer, hidden, positions)
            k, v = (
                torch.cat((old, new), 1) for old, new in zip(cache[number], (k, v), strict=True)
            )
            cache[number] = (k, v)
            weights = _attention(q, k, torch.arange(k.shape[1] - len(hidden), k.shape[1]))
            hidden = hidden + layer.self_attn.o_proj((weights @ v).transpose(0, 1).flatten(1))
            hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
        return hidden

    # the rules

    def _stage(self, pruning, stage, keep, state, places, left, layer) -> np.ndarray:
        rule = getattr(self, f"_{pruning.method}")
        return rule(pruning, stage, keep, state, places, left, layer)

    def _top(self, scores: Tensor, keep: int, left: np.ndarray) -> np.ndarray:
        """The best, of each item at least one."""
        order = sorted(range(len(scores)), key=lambda i: -float(scores[i]))
        chosen = []
        for item in np.unique(self._items[left]):
            chosen.append(next(i for i in order if self._items[left][i] == item))
        for i in order:
            if len(chosen) >= keep:
                break
            if i not in chosen:
                chosen.append(i)
        return np.sort(chosen)

    def _fastv(self, pruning, stage, keep, state, places, left, layer) -> np.ndarray:
        rows = range(
            max(len(state.rows) - pruning.rows, len(state.rows) - self._voices), len(state.rows)
        )
        scores = state.weights[:, list(rows)][:, :, places].mean(dim=(0, 1))
        return self._top(scores, keep, left)

    def _pyramid_drop(self, pruning, stage, keep, state, places, left, layer) -> np.ndarray:
        q, k, v = self._heads(layer, state.hidden, state.positions)
        k, _ = self._behind(layer.self_attn.layer_idx, k, v)
        weights = _attention(q[:, -1:], k, torch.tensor([k.shape[1] - 1]))
        return self._top(weights[:, 0, self._known + places].mean(dim=0), keep, left)

    def _btp(self, pruning, stage, keep, state, places, left, layer) -> np.ndarray:
        attention = state.weights[:, -1, places].mean(dim=0)
        if stage < 2:
            chosen = list(self._top(attention, max(1, int(keep * (0.12, 0.4)[stage])), left))
            directions = torch.nn.functional.normalize(state.hidden[places], dim=-1)
            likeness = (directions @ directions.T).numpy()
            while len(chosen) < keep:
                rest = np.setdiff1d(np.arange(len(places)), chosen)
                chosen.append(rest[likeness[np.ix_(rest, chosen)].max(1).argmin()])
            return np.sort(chosen)
        pool = self._top(attention, min(len(places), int(1.2 * keep)), left)
        scores = torch.full_like(attention, -1)
        scores[pool] = attention[pool] + torch.tensor(pool < keep) * 2.0
        return self._top(scores, keep, left)

    def _sparsevlm(self, pruning, stage, keep, state, places, left, layer) -> np.ndarray:
        rating = (self._visual @ self._spoken.T).softmax(-1).mean(0)
        raters = [i for i in range(self._voices) if rating[i] > rating.mean()] or list(
            range(self._voices)
        )
        rows = [len(state.rows) - self._voices + i for i in raters]
        matrix = state.weights[:, rows][:, :, places].mean(0)
        scores = matrix.mean(0)
        if pruning.adaptive:
            spare = len(places) - int(torch.linalg.matrix_rank(matrix))
            keep = len(places) - int(spare * (len(places) - keep) / len(places))
        centres = int((len(places) - keep) * 0.3) // 10
        if not pruning.recycle or centres == 0 or centres >= keep:
            return self._top(scores, keep, left)
        plain = self._top(scores, keep - centres, left)
        rest = [
            i for i in sorted(range(len(places)), key=lambda i: -float(scores[i])) if i not in plain
        ]
        pool = sorted(rest[: int((len(places) - keep) * 0.3)])
        states = state.hidden[places[pool]]
        middle, members = _clusters(states, centres)
        for centre, own in zip(middle, members, strict=True):
            state.hidden[places[pool[centre]]] = states[own].sum(0)
        return np.sort([*plain, *(pool[i] for i in middle)])


def _attention(q: Tensor, k: Tensor, rows: Tensor) -> Tensor:
    """[heads, q's rows, k's rows]; row i of q is the token ``rows[i]``."""
    logits = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
    seen = torch.arange(k.shape[1])[None] <= rows[:, None]
    return logits.masked_fill(~seen, -torch.inf).softmax(-1)


def _without(each: Tensor, rows: np.ndarray, gone: np.ndarray) -> Tensor:
    return each[:, torch.from_numpy(~np.isin(rows, gone))]


def merge(expected: Expected, dropped: np.ndarray, kept: np.ndarray) -> None:
    """Pivot merging in the cache: tokens of the prompt, into others."""
    out, pivots = (np.searchsorted(expected.rows, tokens) for tokens in (dropped, kept))
    for number, (k, v) in enumerate(expected.cache):
        new_k, new_v = k.clone(), v.clone()
        for head in range(len(k)):
            likeness = torch.nn.functional.cosine_similarity(
                k[head, out][:, None], k[head, pivots][None], dim=-1
            )
            nearest = likeness.argmax(1).numpy()
            for index, pivot in enumerate(pivots):
                joined = out[nearest == index]
                for old, new in ((k, new_k), (v, new_v)):
                    own = old[head, pivot]
                    halves = [(own + old[head, other]) / 2 for other in joined]
                    new[head, pivot] = torch.stack([own, *halves]).mean(0)
        expected.cache[number] = (new_k, new_v)


def _clusters(points: Tensor, count: int) -> tuple[list[int], list[list[int]]]:
    """Centres, and the points of each."""
    apart = (points[:, None] - points[None]).norm(dim=-1).numpy() / points.shape[1] ** 0.5
    density = np.exp(-np.square(np.sort(apart, axis=1)[:, :5]).mean(1))
    lonely = np.array(
        [
            row[density > own].min(initial=apart.max())
            for row, own in zip(apart, density, strict=True)
        ]
    )
    middle = sorted(np.argsort(-lonely * density, kind="stable")[:count].tolist())
    own = apart[:, middle].argmin(1)
    own[middle] = range(count)
    return middle, [np.flatnonzero(own == c).tolist() for c in range(count)]
