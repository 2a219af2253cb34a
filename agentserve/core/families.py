"""Facts of the model families that agentserve serves. Code asks a fact, never a model's name."""

from __future__ import annotations

from dataclasses import dataclass

from agentserve.core.errors import InvalidRequest


@dataclass(frozen=True)
class Family:
    """Facts of one family. Token texts are entries of its tokenizer's special vocabulary."""

    name: str
    architectures: tuple[str, ...]
    """Names in a checkpoint's config.json."""
    grid: int
    """Edge of one merged visual token, in px (patch size x spatial merge)."""
    mrope: bool
    """Whether positions are (t, h, w): what a mosaic needs."""
    prunes_inside: bool
    """Whether the engine can drop tokens between its layers: Qwen3-VL's first layers are given more
    of each picture, row by row."""
    image_token: str
    image_begin: str
    image_end: str
    role_begin: str
    """Text before a message, with {role}."""
    role_end: str
    """Text behind a message."""
    stop_tokens: tuple[str, ...]


_QWEN_CHAT = {
    "image_token": "<|image_pad|>",
    "image_begin": "<|vision_start|>",
    "image_end": "<|vision_end|>",
    "role_begin": "<|im_start|>{role}\n",
    "role_end": "<|im_end|>\n",
    "stop_tokens": ("<|im_end|>", "<|endoftext|>"),
}

FAMILIES: tuple[Family, ...] = (
    Family(
        name="qwen2_5_vl",
        architectures=("Qwen2_5_VLForConditionalGeneration",),
        grid=28,
        mrope=True,
        prunes_inside=True,
        **_QWEN_CHAT,
    ),
    Family(
        name="qwen2_vl",
        architectures=("Qwen2VLForConditionalGeneration",),
        grid=28,
        mrope=True,
        prunes_inside=True,
        **_QWEN_CHAT,
    ),
    Family(
        name="qwen3_vl",
        architectures=("Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration"),
        grid=32,
        mrope=True,
        prunes_inside=False,
        **_QWEN_CHAT,
    ),
)


def family_of(architecture: str) -> Family:
    """The family of a checkpoint's architecture. Raises InvalidRequest for one without facts."""
    for family in FAMILIES:
        if architecture in family.architectures:
            return family
    known = sorted(name for family in FAMILIES for name in family.architectures)
    raise InvalidRequest(
        f"no facts about the architecture {architecture!r}",
        hint=f"sessions run on: {', '.join(known)}; others take the pass-through",
    )


def family_named(name: str) -> Family:
    """The family of that name. Raises InvalidRequest for one without facts."""
    for family in FAMILIES:
        if family.name == name:
            return family
    known = ", ".join(family.name for family in FAMILIES)
    raise InvalidRequest(f"no facts about the family {name!r}", hint=f"known: {known}")
