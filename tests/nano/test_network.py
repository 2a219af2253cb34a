"""The training network computes what transformers' Qwen2.5-VL computes."""

import numpy as np
import pytest
import torch
from PIL import Image

from agentserve.nano.export import export_checkpoint
from agentserve.nano.network import NanoNetwork, Sequences
from agentserve.nano.train.loop import initialise
from agentserve.nano.train.prompts import Answer, Speller, write_episode

SIZES = [(224, 280), (112, 84), (336, 252)]


@pytest.fixture(scope="module")
def speller():
    return Speller()


@pytest.fixture(scope="module")
def network(speller):
    network = NanoNetwork(speller.size, speller.image)
    initialise(network, seed=3)
    # biases are zero at the start of a training; here they must count
    generator = torch.Generator().manual_seed(4)
    for name, parameter in network.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.2, generator=generator)
    network.load_state_dict({k: v.bfloat16().float() for k, v in network.state_dict().items()})
    return network.eval()


@pytest.fixture(scope="module")
def reference(network, tmp_path_factory):
    from transformers import AutoProcessor, Qwen2_5_VLForConditionalGeneration

    folder = export_checkpoint(network.state_dict(), tmp_path_factory.mktemp("nano"))
    model = Qwen2_5_VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
    return model.eval(), AutoProcessor.from_pretrained(folder)


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_logits_equal_those_of_transformers(network, reference, speller, width, height):
    model, processor = reference
    rows, columns = height // 28, width // 28
    chance = np.random.default_rng(width)
    pixels = chance.integers(0, 256, (2, height, width, 3), dtype=np.uint8)
    turns = [Answer("text field", "click 10 14"), Answer("type the text", 'type "sed"')]
    written = write_episode(speller, rows, columns, 'Enter "sed".', turns, [True, True])

    ids = torch.tensor([written.ids])
    length = ids.shape[1]
    with torch.no_grad():
        ours = network(
            torch.from_numpy(pixels),
            Sequences(
                torch.tensor(speller.prefix()),
                ids,
                torch.tensor(written.positions).T[:, None],
                torch.ones(1, length, length, dtype=torch.bool).tril(),
            ),
        )
        pictures = processor.image_processor(
            [Image.fromarray(p) for p in pixels], return_tensors="pt"
        )
        whole = torch.cat((torch.tensor([speller.prefix()]), ids), dim=1)
        theirs = model(
            input_ids=whole,
            attention_mask=torch.ones_like(whole),
            mm_token_type_ids=(whole == speller.image).int(),
            **pictures,
        ).logits
    expected = theirs[:, -length:].log_softmax(-1)
    got = network.logits(ours.hidden).log_softmax(-1)
    assert expected.std() > 0.1
    torch.testing.assert_close(got, expected, atol=2e-3, rtol=0)
