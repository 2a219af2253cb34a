"""The nano checkpoint: the same bytes every time, and an ordinary Qwen2.5-VL to transformers."""

from pathlib import Path

import pytest
import torch
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor

from agentserve.core.families import family_of
from agentserve.nano import recipe

pytestmark = pytest.mark.filterwarnings("ignore")  # transformers' own

MESSAGES = [
    {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Click the button."}]}
]


@pytest.fixture(scope="module")
def processor(nano: Path):
    return AutoProcessor.from_pretrained(nano)


@pytest.fixture(scope="module")
def model(nano: Path):
    return AutoModelForImageTextToText.from_pretrained(nano, dtype=torch.float32)


def logprobs(model, processor, image: Image.Image) -> torch.Tensor:
    """Next-token log-probabilities after MESSAGES."""
    text = processor.apply_chat_template(MESSAGES, add_generation_prompt=True)
    with torch.no_grad():
        logits = model(**processor(text=[text], images=[image], return_tensors="pt")).logits
    return logits[0, -1].log_softmax(-1)


def test_two_builds_are_equal_byte_for_byte(nano: Path, nano_again: Path):
    names = sorted(path.name for path in nano.iterdir())
    assert names == sorted(path.name for path in nano_again.iterdir())
    assert "model.safetensors" in names
    for name in names:
        assert (nano / name).read_bytes() == (nano_again / name).read_bytes(), name


def test_architecture_and_size(model, processor):
    assert family_of(model.config.architectures[0]).name == "qwen2_5_vl"
    assert family_of(model.config.architectures[0]).grid == recipe.GRID
    assert model.config.text_config.rope_parameters["mrope_section"] == [8, 12, 12]
    assert model.config.text_config.max_position_embeddings >= 32_768
    assert model.config.text_config.vocab_size == len(processor.tokenizer)
    assert 5e6 < model.num_parameters() < 15e6


@pytest.mark.parametrize("size", [(56, 56), (224, 280), (1120, 672), (1344, 896), (28, 112)])
def test_a_screen_on_the_grid_is_never_resized(processor, size):
    pixels = processor.image_processor(images=[Image.new("RGB", size)], return_tensors="pt")
    assert pixels["image_grid_thw"].tolist() == [[1, size[1] // 14, size[0] // 14]]


def test_the_prompt_is_written_as_the_family_says(processor):
    family = family_of("Qwen2_5_VLForConditionalGeneration")
    user, assistant = (family.role_begin.format(role=role) for role in ("user", "assistant"))
    screen = family.image_begin + family.image_token + family.image_end
    text = processor.apply_chat_template(MESSAGES, add_generation_prompt=True)
    assert text == f"{user}{screen}Click the button.{family.role_end}{assistant}"


def test_logits_are_not_flat_and_depend_on_the_picture(model, processor):
    white = logprobs(model, processor, Image.new("RGB", (224, 280), "white"))
    painted = Image.new("RGB", (224, 280), "white")
    painted.paste("red", (28, 56, 140, 112))
    red = logprobs(model, processor, painted)
    assert white.max() > -3  # uniform would be -6.4
    assert (white - red).abs().mean() > 0.3


def test_placeholders_of_pictures_are_never_the_likely_token(model, processor):
    silent = [token for token in recipe.SPECIAL_TOKENS if token not in recipe.MAY_BE_WRITTEN]
    ids = processor.tokenizer.convert_tokens_to_ids(silent)
    assert model.lm_head.weight[ids].abs().sum() == 0
    assert (model.lm_head.weight.abs().sum(-1) == 0).sum() == len(ids)
    noise = logprobs(model, processor, Image.effect_noise((224, 280), 80).convert("RGB"))
    assert noise[ids].max() < noise.max() - 3
