"""In the scheduler's process: the embeddings of visual items and of sealed text."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from agentserve.core.config import MIB
from agentserve.engine import compat_items as compat
from agentserve.engine.boot import boot_of
from agentserve.engine.eviction.change import change_of
from agentserve.engine.feature_cache import FeatureCache, checkpoint_revision, model_key
from agentserve.engine.items.carried import Carried, carried_of, set_source
from agentserve.engine.items.salting import salt_marked
from agentserve.engine.pruning.select import Choices, is_open, kept_features, resolve


def embed_items(
    original: Callable[..., Any],
    data_embedding_func: Callable[[list[Any]], Any],
    embedding_items: list[Any],
    *args: Any,
    **kwargs: Any,
) -> Any:
    """AROUND mm_schedule.get_embedding_and_mask: where SGLang embeds the pictures of a batch.

    A batch without visual items goes the stock way; what is encoded is counted there, too.
    """
    if any(carried_of(item) for item in embedding_items):
        model = data_embedding_func.__self__  # the method get_image_feature of a model
        known = worker_cache(compat.model_facts(model))
        function = partial(item_features, data_embedding_func, model, known)
    else:
        function = partial(_encode_ordinary, data_embedding_func)
    data_embedding_func = compat.replaced(data_embedding_func, function)
    return original(data_embedding_func, embedding_items, *args, **kwargs)


def select_tokens(original: Callable[..., Any], scheduler: Any, mm_inputs: Any) -> Any:
    """AROUND Scheduler._get_multimodal_inputs: a request has come, and nothing is known of it yet.

    Pictures whose tokens are chosen by what the encoder makes of them are encoded here, unless it
    is known what is chosen of them.
    """
    inputs = original(scheduler, mm_inputs)
    salt_marked(inputs)
    items = [(item, of) for item in inputs.mm_items if is_open(of := carried_of(item))]
    if not items:
        return inputs
    missing = [(item, of) for item, of in items if _choices.find(of) is None]
    if missing:
        model = compat.model_of(scheduler)
        known = worker_cache(compat.model_facts(model))
        encoded = encode(model.get_image_feature, missing, known, compat.device_of(model))
        for (_, of), features in zip(missing, encoded, strict=True):
            _choices.put(of, features)
    chosen: dict[int, np.ndarray] = {}
    for item, of in items:
        start = item.offsets[0][0]
        kept = _choices.find(of)
        assert kept is not None
        made = resolve(of, kept, start)
        chosen[start] = kept
        compat.choose_tokens(
            inputs,
            item,
            made.carried.pack(),
            identity=made.identity,
            embedding=made.embedding,
            positions=made.positions,
        )
    for item in inputs.mm_items:
        if (change := change_of(item)) is not None:
            item.model_specific_data |= change.with_tokens(chosen).pack()
    return inputs


_choices = Choices()


def item_features(
    encoder: Callable[[list[Any]], Tensor], model: Any, known: FeatureCache, items: list[Any]
) -> list[Tensor]:
    """One tensor [kept tokens, hidden] for each item; SGLang keeps them under the items' hashes.

    ``encoder`` is the model's own ``get_image_feature``.
    """
    carried = [carried_of(item) for item in items]
    texts = [of is not None and of.token is not None for of in carried]
    pictures = [(i, o) for i, o, text in zip(items, carried, texts, strict=True) if not text]
    encoded = iter(encode(encoder, pictures, known, compat.device_of(model)))
    tokens = [of.token for of in carried if of is not None and of.token is not None]
    embedded = iter(compat.text_features(model, tokens))
    return [
        kept_features(of, next(embedded if text else encoded))
        for of, text in zip(carried, texts, strict=True)
    ]


def encode(
    encoder: Callable[[list[Any]], Tensor],
    pictures: list[tuple[Any, Carried | None]],
    known: FeatureCache,
    device: torch.device,
) -> list[Tensor]:
    """The encoder's output for each picture, [tokens, hidden] on ``device``, whatever is kept.

    One call of the encoder for all items that ``known`` does not have, and for ordinary images.
    """
    features: dict[int, Tensor] = {}
    for i, (_, of) in enumerate(pictures):
        if of is not None and (found := known.find(of.content)) is not None:
            features[i] = found[0].to(device)
            set_source(pictures[i][0], found[1])
    missing = [i for i in range(len(pictures)) if i not in features]
    if missing:
        items = [pictures[i][0] for i in missing]
        whole = _encode_ordinary(encoder, items)
        patches = [int(item.image_grid_thw.prod()) for item in items]
        merged = sum(patches) // whole.shape[0]
        on_host = whole.cpu()
        lengths = [count // merged for count in patches]
        for i, feature, host in zip(
            missing, whole.split(lengths), on_host.split(lengths), strict=True
        ):
            features[i] = feature
            if (of := pictures[i][1]) is not None:
                known.put(of.content, host)
    return [features[i] for i in range(len(pictures))]


def _encode_ordinary(encoder: Callable[[list[Any]], Any], items: list[Any]) -> Any:
    for item in items:
        set_source(item, "encoder")
    return encoder(items)


@cache
def worker_cache(facts: compat.ModelFacts) -> FeatureCache:
    """The feature cache of this process."""
    boot = boot_of()
    assert boot is not None, "the hooks run only with a boot"
    config = boot.feature_cache
    folder = Path(facts.path)
    revision = checkpoint_revision(folder) if folder.is_dir() else facts.commit
    return FeatureCache(
        memory_bytes=config.memory_mb * MIB,
        # without a revision nobody knows later which weights made an entry
        folder=Path(config.folder) if config.folder and revision else None,
        folder_bytes=config.folder_mb * MIB,
        model_key=model_key(revision or "", facts.dtype, facts.device, facts.quantization),
    )
