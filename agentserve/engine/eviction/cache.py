"""The prefix cache of a worker: SGLang's own, out of which tokens can leave after an answer."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch

from agentserve.core.item_urls import keep_set
from agentserve.engine import compat_eviction as compat
from agentserve.engine import flops
from agentserve.engine.chunking.count import cuts_of
from agentserve.engine.eviction.change import Change, change_of
from agentserve.engine.eviction.keys import Sequence, compact, rows_of, sequence_of
from agentserve.engine.eviction.memory import Memory
from agentserve.engine.eviction.outcome import KEY, Outcome
from agentserve.engine.eviction.paths import Namespace, Paths
from agentserve.engine.items.carried import carried_of, source_of
from agentserve.engine.pruning.book import entry_of
from agentserve.engine.pruning.decide import Decision, decide

logger = logging.getLogger(__name__)


@dataclass
class _Run:
    """What the cache knows of a request with visual items."""

    seals: list[int]
    """Index of the last token of each."""
    change: Change | None
    sequence: Sequence | None = None
    """What of the prompt is in the tree under names of its own."""
    common: int = 0
    """How many tokens of it."""

    @property
    def limit(self) -> int | None:
        """The first token that must not be in the tree as it runs."""
        return None if self.change is None else self.change.first

    def key_of(self, plain: array[int]) -> array[int]:
        return plain if self.sequence is None else self.sequence.key_of(plain)

    @property
    def rebuilt(self) -> bool:
        """Whether some KV was lost and computed anew from what was left, now or earlier."""
        if self.sequence is None:
            return bool(self.seals)
        return self.sequence.rebuilt or not np.isin(self.seals, self.sequence.where).all()


class EvictingCache(compat.Tree):
    """See the package's page. Requests without visual items go the stock way, untouched."""

    def reset(self) -> None:
        super().reset()
        self._memory = Memory()
        self._paths = Paths()
        self._runs: WeakKeyDictionary[Any, _Run] = WeakKeyDictionary()
        self._told: set[str] = set()

    def match_prefix(self, params: Any) -> Any:
        """Look the prompt up under the names that it was stored under.

        A later match of the same request may find others: it has stored nothing in between but
        under names that stay what they are.
        """
        run = self._run_of(params.req)
        if run is None or not run.seals:
            return super().match_prefix(params)
        plain = params.key.token_ids
        for sequence in self._memory.known(plain, run.seals):
            result = self.match_as(params, sequence.key_of(plain))
            # all of it, as far as the prompt has it: what is lost would be computed under a key
            # that is not its. (The last token of a prompt is never looked up.)
            common = min(sequence.common(plain), len(params.key))
            if common >= sequence.sealed and result.device_prefix_len >= common:
                run.sequence, run.common = sequence, common
                return result
        run.sequence = None
        return super().match_prefix(params)

    def touch(self, req: Any) -> None:
        """Have what a waiting request will find be the last to leave for want of room."""
        key = compat.waiting_key(req, self)
        run, plain = self._run_of(req), key.token_ids
        known = [] if run is None else self._memory.known(plain, run.seals)
        self.touch_as(key, known[0].key_of(plain) if known else plain)

    def checkpoint(self, req: Any, *, up_to: int, **kwargs: Any) -> None:
        """Store what a request has computed; when its answer is complete, let tokens leave."""
        run = self._run_of(req)
        if run is None:
            super().checkpoint(req, up_to=up_to, **kwargs)
            if req.finished():
                self._reached(req, compat.plain_ids(req, compat.tree_owned(req)))
                if sources := _sources(req):
                    self._report(req, Outcome(reason="nothing is to leave", sources=sources))
            return
        if run.sequence is not None and compat.tree_owned(req) < run.common:
            run.sequence = None  # found, and not taken: SGLang can be told to miss
        if not req.finished():
            self._store(req, run, run.key_of(compat.plain_ids(req, up_to)))
            return
        entry = entry_of(req)
        if entry is not None:
            up_to += entry.gone  # counted in tokens of the prompt, not in what its row has
        plain = compat.plain_ids(req, up_to)
        key = run.key_of(plain)
        if run.change is not None and run.change.forked:
            # what was found, not what the tree has by now: the prompt's own beginning is no one's
            start = key[: compat.found_tokens(req)]
            self._memory.forks(run.change.owner, start, continued=run.sequence is not None)
        reason = self._obstacle(req, run, up_to)
        outcome = self._store_last(req, run, key, reason) if reason else None
        if outcome is None:
            assert run.change is not None
            decision = None if entry is None else decide(entry)
            outcome = self._compact(req, run, run.change, decision, plain, key)
        pruned = 0 if entry is None else entry.gone
        told = replace(outcome, sources=_sources(req), selected=_selected(req), pruned=pruned)
        self._report(req, told)

    def release(self, owner: str, *, keep: int, forked: int) -> int:
        """Free what only ``owner`` has in the tree, who has no more prompts: how many slots that
        were. See OverSession for ``keep`` and ``forked``."""
        self._memory.leaves(owner)
        before = self.evictable_size()
        paths = self._paths.leaves(owner)
        if paths and forked:
            self._memory.forks(owner, paths[0].key[:forked], continued=True)
        for path in paths:
            key, of = path.key, path.namespace
            down_to = max(
                keep,
                self._paths.needed_by_others(owner, path),
                self._memory.forked_from(key, len(key)),
            )
            left = self.release_path(key, of.salt, of.extra, down_to)
            for sequence in path.sequences:
                if sequence.sealed > left:
                    self._memory.forget(sequence)
        return before - self.evictable_size()

    def owner_of(self, req: Any) -> str | None:
        """Whose a request is; nobody's when it does not tell."""
        changes = (change_of(item) for _, item in compat.items_of(req))
        change = next((change for change in changes if change is not None), None)
        return compat.session_of(req) if change is None else change.owner

    def _reached(
        self,
        req: Any,
        key: array[int],
        change: Change | None = None,
        sequence: Sequence | None = None,
    ) -> None:
        """Remember where a request's prompt and answer are in the tree."""
        owner = compat.session_of(req) if change is None else change.owner
        if owner is not None:
            self._paths.reaches(owner, key, Namespace(*compat.namespace_of(req)), sequence)

    def _report(self, req: Any, outcome: Outcome) -> None:
        counted = replace(outcome, cut_items=cuts_of(req), prefill_flops=flops.of(req))
        compat.report(req, KEY, asdict(counted))

    def _run_of(self, req: Any) -> _Run | None:
        if req is None:
            return None
        items = list(compat.items_of(req))  # none any more once SGLang refuses the request
        if not items:
            return None
        run = self._runs.get(req)
        if run is None:
            carried = [(last, carried_of(item), change_of(item)) for last, item in items]
            run = _Run(
                seals=[last for last, its, _ in carried if its is not None and its.history],
                change=next((change for _, _, change in carried if change is not None), None),
            )
            if all(its is None for _, its, _ in carried):
                return None
            self._runs[req] = run
        return run

    def _obstacle(self, req: Any, run: _Run, up_to: int) -> str | None:
        """Why nothing leaves; None when something does."""
        if run.limit is None:
            return "nothing is to leave"
        if compat.aborted(req):
            return "the request was aborted"
        if up_to < compat.prompt_length(req):
            return "the prompt was not computed to its end"
        unfit = self.unfit()
        if unfit is not None and unfit not in self._told:
            self._told.add(unfit)
            logger.warning("agentserve: tokens do not leave the cache after an answer: %s", unfit)
        return unfit

    def _store(self, req: Any, run: _Run, key: array[int]) -> None:
        """Have the tree own what does not depend on what will leave."""
        length = len(key) if run.limit is None else min(len(key), run.limit)
        self.publish_as(req, key, compat.prompt_length(req), length)

    def _store_last(self, req: Any, run: _Run, key: array[int], reason: str) -> Outcome:
        self._store(req, run, key)
        # an aborted one may have found more than it may store: that is still its owner's
        stored = key[: compat.tree_owned(req)]
        if run.change is not None:
            self._memory.reaches(run.change.owner, stored)
        self._reached(req, stored, run.change)
        return Outcome(rebuilt=run.rebuilt, reason=reason)

    def _compact(
        self,
        req: Any,
        run: _Run,
        change: Change,
        decision: Decision | None,
        plain: array[int],
        key: array[int],
    ) -> Outcome:
        """Order the row anew: [what stays, of it first what the tree owns | what leaves].

        The tree owns the first ``found`` tokens. Of these it keeps those before the first that
        changes; the others become the request's, or are copied where someone else needs them:

            0 ......... first ......... owned ......... found ......... end of the answer
            | stays as is | copied, if kept | adopted   |  the request's own  |

        What a pruning took is not in the row any more. The answer's last token leaves as well: its
        KV may not have been computed, and it may be a stop that the next prompt does not have.
        """
        first = change.first
        present = np.arange(len(key))  # tokens of prompt and answer that the row has
        if decision is not None:
            change, present = decision.change, np.setdiff1d(present, decision.gone)
        end = max(change.length, min(len(key), compat.answer_end(req) - 1))
        assert first is not None
        self.wait_for_model()
        found = compat.tree_owned(req)
        if found > first:
            shared = self._memory.needed_by_others(change.owner, key, found)
            self.adopt(req, down_to=first, at_least=shared)
        owned = compat.tree_owned(req)
        rows = rows_of(change, end)
        row = self.row(req, len(present))

        def slots_of(tokens: np.ndarray) -> torch.Tensor:
            return row[torch.from_numpy(np.searchsorted(present, tokens)).to(row.device)]

        if decision is not None and decision.merged is not None:
            dropped, kept = map(slots_of, decision.merged)
            self.merge(dropped, kept)
        to_copy = (rows >= first) & (rows < owned)
        stays = slots_of(rows)
        if to_copy.any():
            where = torch.from_numpy(np.flatnonzero(to_copy)).to(row.device)
            fresh = self.copied(stays[where]) if self.can_copy() else None
            if fresh is None:
                return self._store_last(req, run, key, "no room to copy what others share")
            stays[where] = fresh
        leaves = slots_of(np.setdiff1d(present[present >= owned], rows))

        left, named = compact(plain[:end], key[:end], change, compat.sentinels)
        self.replace_row(req, stays, tree_owned=min(first, owned))
        self.publish_as(req, named, len(named), len(named))
        self.free(leaves)
        compat.disown(req, len(present))
        sequence = sequence_of(left, named, rebuilt=run.rebuilt)
        self._memory.remember(sequence, left)
        self._memory.reaches(change.owner, named)
        self._reached(req, named, change, sequence)
        return Outcome(
            freed=len(leaves) - (len(key) - end),
            copied=int(to_copy.sum()),
            adopted=found - owned,
            rebuilt=run.rebuilt,
            keeps=() if decision is None else decision.keeps,
            unchosen=None if decision is None else decision.reason,
        )


def touch_waiting(touch: Callable[..., None], req: Any, tree_cache: Any) -> None:
    """AROUND schedule_policy.touch_waiting_prefix: SGLang's own would look up the ids as they run,
    which are not what the prompt is stored under."""
    if isinstance(tree_cache, EvictingCache):
        tree_cache.touch(req)
    else:
        touch(req, tree_cache)


def _selected(req: Any) -> tuple[str, ...]:
    """See Outcome."""
    carried = [carried_of(item) for _, item in compat.items_of(req)]
    return tuple(
        keep_set(np.asarray(of.kept), of.box[2] * of.box[3])
        for of in carried
        if of is not None and of.selected and of.kept is not None
    )


def _sources(req: Any) -> tuple[str, ...]:
    """See Outcome."""
    found = compat.found_tokens(req)
    sources = []
    for last, item in compat.items_of(req):
        carried = carried_of(item)
        if carried is None or carried.token is None:  # not a text token with a seal
            source = source_of(item) or ("radix" if last < found else "device")
            sources.append(source)
    return tuple(sources)
