"""The bundled checkpoint is an ordinary Qwen2.5-VL to transformers, and has learned something."""

import pytest
import torch
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor

from agentserve.core.families import family_of
from agentserve.nano import nano_path, recipe
from agentserve.nano.tokenizer import build_tokenizer

pytestmark = pytest.mark.filterwarnings("ignore")  # transformers' own

MESSAGES = [
    {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Click the button."}]}
]


@pytest.fixture(scope="module")
def processor():
    return AutoProcessor.from_pretrained(nano_path())


@pytest.fixture(scope="module")
def model():
    return AutoModelForImageTextToText.from_pretrained(nano_path(), dtype=torch.float32)


def test_architecture_and_size(model, processor):
    assert family_of(model.config.architectures[0]).name == "qwen2_5_vl"
    assert family_of(model.config.architectures[0]).grid == recipe.GRID
    assert model.config.text_config.rope_parameters["mrope_section"] == [8, 12, 12]
    assert model.config.text_config.max_position_embeddings >= 32_768
    assert model.config.text_config.vocab_size == len(processor.tokenizer)
    assert 5e6 < model.num_parameters() < 15e6


def test_the_bundled_tokenizer_is_the_recipes(processor):
    assert processor.tokenizer.get_vocab() == build_tokenizer().get_vocab()


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


def test_placeholders_of_pictures_are_never_the_likely_token(model, processor):
    text = processor.apply_chat_template(MESSAGES, add_generation_prompt=True)
    noise = Image.effect_noise((224, 280), 80).convert("RGB")
    with torch.no_grad():
        logits = model(**processor(text=[text], images=[noise], return_tensors="pt")).logits
    likely = logits[0, -1].log_softmax(-1)
    specials = [token for token in recipe.SPECIAL_TOKENS if token not in recipe.MAY_BE_WRITTEN]
    ids = processor.tokenizer.convert_tokens_to_ids(specials)
    assert likely[ids].max() < likely.max() - 3
