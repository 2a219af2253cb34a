"""transformers' own Qwen2.5-VL with given embeddings and positions, to compare a worker with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from transformers import AutoImageProcessor, Qwen2_5_VLForConditionalGeneration

from agentserve.engine.items.layout import Layout


class Reference:
    """The checkpoint in fp32."""

    def __init__(self, checkpoint: Path) -> None:
        self.model = Qwen2_5_VLForConditionalGeneration.from_pretrained(
            checkpoint, dtype=torch.float32, attn_implementation="eager"
        ).eval()
        self.processor = AutoImageProcessor.from_pretrained(checkpoint)

    @torch.no_grad()
    def embeddings(self, image: Image.Image) -> torch.Tensor:
        """[tokens, hidden] of a picture that the vision encoder sees alone, not resized."""
        patches = self.processor(images=[image], do_resize=False, return_tensors="pt")
        encoded = self.model.model.get_image_features(
            patches["pixel_values"], patches["image_grid_thw"]
        )
        return encoded.pooler_output[0]

    @torch.no_grad()
    def logprobs(
        self, layout: Layout, visual: Sequence[torch.Tensor], output: Sequence[int]
    ) -> torch.Tensor:
        """[len(output), vocabulary]: of every token of the answer ``output`` to a prompt.

        ``visual`` are the embeddings that go into the prompt's spans.
        """
        ids = torch.tensor([*layout.ids, *output[:-1]])
        embedded = self.model.get_input_embeddings()(ids)
        for span, tokens in zip(layout.spans, visual, strict=True):
            embedded[span.start : span.end] = tokens
        after = layout.next_position + np.arange(len(output) - 1)
        positions = np.concatenate([layout.positions, np.tile(after, (3, 1))], axis=1)
        logits = self.model(
            inputs_embeds=embedded[None],
            position_ids=torch.from_numpy(positions)[:, None],
            attention_mask=torch.ones(1, len(ids), dtype=torch.long),
            use_cache=False,
        ).logits[0]
        return logits[len(layout.ids) - 1 :].log_softmax(-1)
