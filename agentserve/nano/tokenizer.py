"""The nano model's tokenizer: 256 bytes, whole words from words.txt, coordinates, Qwen's specials.

There are no merges: a word that is listed is one token, every other one is its bytes. A model this
small reads and copies far better when a piece is either a word it has seen a thousand times or a
letter it can see on the screen.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

from agentserve.nano import recipe

_SPLIT = r" ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]|\s"
_SPACE = "Ġ"
"""How byte-level pieces write a space."""


def build_tokenizer() -> Tokenizer:
    """The tokenizer, its special tokens behind the ordinary ones, without gaps in the ids."""
    pieces = [*sorted(pre_tokenizers.ByteLevel.alphabet())]
    pieces += [_SPACE + mark for mark in (*recipe.MARKS, *"0123456789aXY")]
    pieces += [_SPACE + str(n) for n in range(recipe.BIN // 2, recipe.MAX_COORDINATE, recipe.BIN)]
    for word in words():
        pieces += [word, _SPACE + word]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(recipe.SPECIAL_TOKENS))
    return tokenizer


@cache
def words() -> tuple[str, ...]:
    """The words that are one token, each with and without a space before it."""
    return tuple((Path(__file__).parent / "words.txt").read_text(encoding="ascii").split())
