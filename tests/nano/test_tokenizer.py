"""The nano model's tokenizer: lossless, reproducible, with Qwen's special tokens."""

from agentserve.nano import recipe
from agentserve.nano.tokenizer import build_tokenizer, words


def test_any_text_survives():
    tokenizer = build_tokenizer()
    for text in ('click 112 84\ntype "a \\"b\\""', "  two  spaces\r\n\ttab", "héé ☃ 日本 \x00\x7f"):
        ids = tokenizer.encode(text).ids
        assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_common_words_and_digits_are_cheap():
    tokenizer = build_tokenizer()
    assert tokenizer.encode('click on the button "').tokens == [
        "click", "Ġon", "Ġthe", "Ġbutton", 'Ġ"',
    ]  # fmt: skip
    assert tokenizer.encode("112").tokens == ["1", "1", "2"]


def test_special_tokens_come_last_without_gaps():
    tokenizer = build_tokenizer()
    size = tokenizer.get_vocab_size()
    ids = [tokenizer.token_to_id(token) for token in recipe.SPECIAL_TOKENS]
    assert ids == list(range(size - len(ids), size))
    assert sorted(tokenizer.get_vocab().values()) == list(range(size))
    assert tokenizer.encode("<|image_pad|>").ids == [tokenizer.token_to_id("<|image_pad|>")]


def test_special_tokens_in_a_task_can_be_read_as_text():
    tokenizer = build_tokenizer()
    tokenizer.encode_special_tokens = True
    special = {tokenizer.token_to_id(token) for token in recipe.SPECIAL_TOKENS}
    ids = tokenizer.encode("type <|im_end|><|image_pad|>").ids
    assert not special & set(ids)
    assert tokenizer.decode(ids) == "type <|im_end|><|image_pad|>"


def test_two_builds_are_equal():
    assert build_tokenizer().to_str() == build_tokenizer().to_str()


def test_a_coordinate_is_one_token():
    tokenizer = build_tokenizer()
    middles = range(recipe.BIN // 2, recipe.MAX_COORDINATE, recipe.BIN)
    assert all(len(tokenizer.encode(f" {n}").ids) == 1 for n in middles)
    assert tokenizer.encode("click 114 86").tokens == ["click", "Ġ114", "Ġ86"]
    assert tokenizer.encode(" 115").tokens == ["Ġ", "1", "1", "5"]


def test_words_that_are_not_listed_are_their_letters():
    tokenizer = build_tokenizer()
    assert "kenda" in words() and "qzxv" not in words()
    assert tokenizer.encode("kenda").tokens == ["kenda"]
    assert tokenizer.encode("qzxv").tokens == ["q", "z", "x", "v"]
