"""The tokenizer of a session's model, fetched from its worker. No transformers needed."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable

from tokenizers import Tokenizer

from agentserve.core.blobs import sha256_of
from agentserve.core.errors import WorkerLost, WorkerRefused


class SessionTokenizer:
    """Text to ids and back. Safe to share between threads: nothing changes after construction.

    ``encode`` is for text from people, pages and programs: a special token's name in it stays
    text. Only ``encode_markers`` turns such names into the tokens themselves.
    """

    def __init__(self, tokenizer_json: str) -> None:
        self._tokenizer = Tokenizer.from_str(tokenizer_json)
        self._tokenizer.encode_special_tokens = True
        self._special = {
            token.content: token_id
            for token_id, token in self._tokenizer.get_added_tokens_decoder().items()
            if token.special
        }
        self.special_ids = frozenset(self._special.values())
        names = sorted(self._special, key=len, reverse=True)
        self._split = re.compile("(" + "|".join(map(re.escape, names)) + ")") if names else None

    def encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def encode_markers(self, text: str) -> list[int]:
        """Ids of a family's own text (role and vision markers), special tokens included."""
        ids: list[int] = []
        for part in self._split.split(text) if self._split else [text]:
            ids.extend([self._special[part]] if part in self._special else self.encode(part))
        return ids

    def special_id(self, name: str) -> int:
        """Raises WorkerRefused when the tokenizer has no special token of that name."""
        if name not in self._special:
            raise WorkerRefused(
                f"the worker's tokenizer has no special token {name!r}",
                hint="its model is not of the family that its architecture names",
            )
        return self._special[name]

    def decode(self, ids: list[int]) -> str:
        """The text of the ids, special tokens left out."""
        return self._tokenizer.decode(ids, skip_special_tokens=True)


class TokenizerCache:
    """The last few tokenizers by the SHA-256 of their JSON text."""

    def __init__(self, size: int = 4) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._items: OrderedDict[str, SessionTokenizer] = OrderedDict()

    def get(self, sha256: str, fetch: Callable[[], str]) -> SessionTokenizer:
        """The tokenizer, from ``fetch`` when it is not here yet.

        Raises WorkerLost when the worker now has another tokenizer (it was restarted with another
        model), and what ``fetch`` raises.
        """
        with self._lock:
            if sha256 in self._items:
                self._items.move_to_end(sha256)
                return self._items[sha256]
        # Outside the lock: a slow worker must not hold up turns on others. Two threads may both
        # fetch a new tokenizer; either copy is good.
        text = fetch()
        if sha256_of(text.encode()) != sha256:
            raise WorkerLost(
                "the worker's tokenizer is not the one it reported",
                hint="it was restarted with another model; the turn can run on another worker",
            )
        tokenizer = SessionTokenizer(text)
        with self._lock:
            self._items[sha256] = tokenizer
            while len(self._items) > self._size:
                self._items.popitem(last=False)
        return tokenizer
