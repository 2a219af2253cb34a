"""SGLang's private names about pictures in a prompt; ``compat.NAMES`` has their signatures.

Imports SGLang only where it is used: inside its processes, where all of it is loaded.
"""

from __future__ import annotations

import copy
import functools
import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from agentserve.core.errors import InvalidRequest
from agentserve.engine.items.salting import salted_content, salted_hash


@dataclass(frozen=True)
class ProcessorFacts:
    """What SGLang's Qwen-VL processor knows of its model."""

    grid: int
    """Edge of one merged visual token, in px."""
    image_token: int
    max_position: int
    """The first position for which the model has no rotary embedding."""


@dataclass(frozen=True)
class ModelFacts:
    """What decides the vision encoder's output, beside the picture."""

    path: str
    """The checkpoint's folder, or its name on the model hub."""
    commit: str | None
    """Of the hub."""
    dtype: str
    device: str
    quantization: str


@dataclass(frozen=True)
class Patches:
    """One image, ready for the vision encoder."""

    content: str
    """SHA-256 of the encoded image and of every setting of its preprocessing but the resizing: what
    is an item has its size already, and is the same picture either way."""
    hash: int
    """SGLang's hash of it as an ordinary image."""
    rows: int
    columns: int
    """In merged tokens."""
    artifact: Any


@contextmanager
def bad_request() -> Iterator[None]:
    """SGLang answers a ValueError with 400 and its text."""
    try:
        yield
    except InvalidRequest as error:
        hint = f" ({error.hint})" if error.hint else ""
        raise ValueError(f"{error.message}{hint}") from error


def fetches_media(manager: Any) -> bool:
    """Whether the worker may fetch media, from the domains that its operator has named."""
    return bool(manager.server_args.allowed_media_domains)


def image_url(source: Any) -> str | None:
    """The URL of one entry of a request's ``image_data``; None when it is no URL."""
    if isinstance(source, dict):
        source = source.get("url")
    url = getattr(source, "url", source)
    return url if isinstance(url, str) else None


def processor_facts(processor: Any) -> ProcessorFacts:
    """Raises InvalidRequest when the worker runs without a preprocessing cache."""
    if processor.processor_fingerprint is None:
        raise InvalidRequest(
            "visual items need the preprocessing cache",
            hint="start the worker without --mm-preprocess-cache-size-mb 0",
        )
    config = processor.hf_config
    return ProcessorFacts(
        grid=config.vision_config.patch_size * config.vision_config.spatial_merge_size,
        image_token=processor.IM_TOKEN_ID,
        max_position=config.get_text_config().max_position_embeddings,
    )


async def image_patches(
    processor: Any, sources: Sequence[Any], salt: str, *, resize: bool = True
) -> list[Patches]:
    """Decode and preprocess images, or find them in the processor's cache. ``salt`` goes into what
    they are known by: see items.salting.

    ``resize`` as SGLang does it: to the grid, and into the processor's limits of pixels. Raises
    ValueError for what is no image.
    """
    if not sources:
        return []
    settings = processor.processor_fingerprint
    if not resize:
        # the stock code with one setting changed; the cache is shared, so the key must differ
        fingerprint = f"{settings} without resizing"
        processor = copy.copy(processor)
        processor.image_config = {**(processor.image_config or {}), "do_resize": False}
        processor.processor_fingerprint = (
            f"sha256:{hashlib.sha256(fingerprint.encode()).hexdigest()}"
        )
    merge = processor.hf_config.vision_config.spatial_merge_size
    patches = []
    for artifact in await processor.prepare_media_artifacts(sources):
        _, rows, columns = artifact.model_specific_data["image_grid_thw"].flatten().tolist()
        patches.append(
            Patches(
                content=salted_content(
                    hashlib.sha256(f"{artifact.content_digest} {settings}".encode()).hexdigest(),
                    salt,
                ),
                hash=salted_hash(artifact.feature_hash, salt),
                rows=rows // merge,
                columns=columns // merge,
                artifact=artifact,
            )
        )
    return patches


def image_item(patches: Patches, start: int, end: int) -> Any:
    """SGLang's item of an ordinary image whose tokens are [start, end) of the prompt."""
    from sglang.srt.managers.schedule_batch import Modality, MultimodalDataItem

    item = MultimodalDataItem(
        modality=Modality.IMAGE,
        feature=patches.artifact.feature,
        offsets=[(start, end - 1)],
        model_specific_data=copy.deepcopy(patches.artifact.model_specific_data),
    )
    item.set_hash(patches.hash)
    return item


def text_item(index: int, data: dict[str, Any]) -> Any:
    """An item of one text token: SGLang asks ``get_image_feature`` for its embedding."""
    from sglang.srt.managers.schedule_batch import Modality, MultimodalDataItem

    return MultimodalDataItem(
        modality=Modality.IMAGE, offsets=[(index, index)], model_specific_data=data
    )


def set_identity(item: Any, *, identity: bytes, embedding: int) -> None:
    """``identity`` (32 bytes) makes the radix key, ``embedding`` keys SGLang's embedding cache."""
    item.set_identity(identity)
    item.hash = embedding


def model_of(scheduler: Any) -> Any:
    """The model that a scheduler runs."""
    return scheduler.tp_worker.model_runner.model


def choose_tokens(
    inputs: Any,
    item: Any,
    data: dict[str, Any],
    *,
    identity: bytes,
    embedding: int,
    positions: np.ndarray,
) -> None:
    """Give an item of a request that has just come other tokens than those it was sent with, as
    many of them. ``positions`` int64 [3, tokens]; the items of one request lie apart."""
    ((start, last),) = item.offsets
    item.model_specific_data |= data
    set_identity(item, identity=identity, embedding=embedding)
    inputs.mrope_positions[:, start : last + 1] = torch.from_numpy(positions)
    inputs.padded_input_ids[start : last + 1] = item.padding_sequence(last + 1 - start)


def processor_output(
    processor: Any, ids: list[int], items: list[Any], positions: np.ndarray, next_position: int
) -> Any:
    """What ``process_mm_data_async`` returns; ``positions`` int64 [3, len(ids)]."""
    from sglang.srt.managers.schedule_batch import MultimodalProcessorOutput

    padded = MultimodalProcessorOutput.build_padded_input_ids(ids, items)
    return MultimodalProcessorOutput(
        input_ids=ids,
        padded_input_ids=padded,
        mm_items=processor._prepare_mm_items_for_transport(items),
        im_start_id=processor.vision_start_token_id,
        im_end_id=processor.vision_end_token_id,
        im_token_id=processor.mm_tokens.image_token_id,
        video_token_id=processor.mm_tokens.video_token_id,
        audio_token_id=processor.mm_tokens.audio_token_id,
        mrope_positions=torch.from_numpy(positions),
        mrope_position_delta=torch.tensor([[next_position - len(ids)]]),
    )


def model_facts(model: Any) -> ModelFacts:
    """In the scheduler's process, of the model it runs."""
    from sglang.srt.runtime_context import get_model

    settings = get_model()
    weight = next(model.visual.parameters())
    return ModelFacts(
        path=settings.model_path,
        commit=getattr(model.config, "_commit_hash", None),
        dtype=str(weight.dtype),
        device=weight.device.type,
        quantization=str(settings.quantization),
    )


def device_of(model: Any) -> torch.device:
    """Where the vision encoder runs."""
    return next(model.visual.parameters()).device


def replaced(method: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` in the place of a bound method: SGLang asks for its name and its object."""

    @functools.wraps(method)
    def bound(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    bound.__self__ = method.__self__
    return bound


def text_features(model: Any, tokens: Sequence[int]) -> list[torch.Tensor]:
    """The embedding of each text token as ``get_image_feature`` returns it, [1, width].

    Qwen3-VL adds to the first layers what its vision encoder saw on the way: nothing, for text.
    """
    if not tokens:
        return []
    embedded = model.get_input_embeddings()(torch.tensor(tokens, device=device_of(model)))
    deep = len(getattr(model, "deepstack_visual_indexes", ()))
    return list(torch.nn.functional.pad(embedded, (0, deep * embedded.shape[-1])).split(1))
