"""The nano model's tokenizer: 256 bytes, merges learned from a small fixed text, Qwen's specials.

The merges are learned here rather than by a library's trainer, whose order of equal counts is not
promised: the same recipe must give the same tokens everywhere, or recorded token ids lose their
meaning.
"""

from __future__ import annotations

from collections import Counter

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

from agentserve.nano import recipe

# Words with one leading mark or space, single digits, runs of marks, white space: Qwen2's rule.
_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def build_tokenizer() -> Tokenizer:
    """The tokenizer, its special tokens behind the ordinary ones, without gaps in the ids."""
    splitter = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    words = Counter(word for word, _ in splitter.pre_tokenize_str(recipe.CORPUS))
    merges = learn_merges(words, recipe.MERGES)
    pieces = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *(a + b for a, b in merges)]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = splitter
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(recipe.SPECIAL_TOKENS))
    return tokenizer


def learn_merges(words: Counter[str], limit: int) -> list[tuple[str, str]]:
    """Byte-pair merges of ``words`` (a word's characters are bytes), the most frequent first.

    Of equally frequent pairs the smaller one comes first. Stops at ``limit`` merges or when no
    pair occurs twice; no two merges give the same piece.
    """
    spelled = {word: list(word) for word in words}
    pieces = {character for word in words for character in word}
    merges: list[tuple[str, str]] = []
    while len(merges) < limit:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, count in words.items():
            for pair in zip(spelled[word], spelled[word][1:], strict=False):
                pairs[pair] += count
        fresh = [pair for pair, count in pairs.items() if count > 1 and "".join(pair) not in pieces]
        if not fresh:
            break
        best = min(fresh, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        pieces.add("".join(best))
        for word, spelling in spelled.items():
            if best[0] in spelling:
                spelled[word] = _merge(spelling, best)
    return merges


def _merge(spelling: list[str], pair: tuple[str, str]) -> list[str]:
    merged: list[str] = []
    for piece in spelling:
        if merged and (merged[-1], piece) == pair:
            merged[-1] += piece
        else:
            merged.append(piece)
    return merged
