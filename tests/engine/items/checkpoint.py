"""A small Qwen2.5-VL with random weights, scaled up so that its logits tell right from wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from agentserve.nano.export import export_checkpoint
from agentserve.nano.network import NanoNetwork
from agentserve.nano.tokenizer import build_tokenizer

# The end of a parameter's name -> its standard deviation times the square root of its fan-in. The
# usual 0.02 makes logits so flat that other positions or other pixels hardly change them.
_SCALES = (
    ("embed_tokens.weight", 3.0),
    ("q_proj.weight", 2.0),
    ("k_proj.weight", 2.0),
    ("patch_embed.proj.weight", 3.0),
    ("merger.mlp.2.weight", 2.0),
    (".weight", 1.0),
)


def random_checkpoint(folder: Path) -> Path:
    """Write the checkpoint into ``folder`` and return it; the same weights every time."""
    tokenizer = build_tokenizer()
    network = NanoNetwork(tokenizer.get_vocab_size(), tokenizer.token_to_id("<|image_pad|>"))
    generator = torch.Generator().manual_seed(4)
    weights = {}
    for name, shaped in network.state_dict().items():
        if name.endswith(".bias"):
            weights[name] = torch.randn(shaped.shape, generator=generator) * 0.1
        elif shaped.dim() == 1:
            weights[name] = torch.ones(shaped.shape)
        else:
            scale = next(scale for end, scale in _SCALES if name.endswith(end))
            fan_in = shaped.numel() / shaped.shape[0]
            weights[name] = torch.randn(shaped.shape, generator=generator) * scale / fan_in**0.5
    return export_checkpoint(weights, folder)


if __name__ == "__main__":
    random_checkpoint(Path(sys.argv[1]))
