"""Which visual tokens stay: the methods, and the wire form in which a session asks for them.

A method only chooses a *keep set*. It does so at one of three times:

``before``  the language model, from pixels or from the vision encoder's output: a pure function of
            the picture, so allowed on what sessions share
``inside``  of it, from the attention of the prompt's text: of private items only
``after``   the answer, for the turns to come: of private items only

``ratio`` and ``keep`` mean the same for all methods: the share of tokens that is gone, or left, in
the end. Layers are fractions of the model's depth, so that every model has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar, get_args

from pydantic import Field, ValidationError, model_validator

from agentserve.core.errors import InvalidRequest
from agentserve.core.families import Family
from agentserve.core.model import Wire

PixelMethod = Literal["uniform", "random", "flat", "evs", "ui_graph"]
FeatureMethod = Literal["tome", "svd", "saliency"]
InsideMethod = Literal["fastv", "pyramid_drop", "btp", "sparsevlm"]
PruningMethod = Literal[PixelMethod, FeatureMethod, InsideMethod]
EvictionMethod = Literal["vtw", "look_m", "attention", "uniform", "random"]

Share = Annotated[float, Field(ge=0, le=1)]
Depth = Annotated[float, Field(gt=0, lt=1)]


@dataclass(frozen=True)
class Method:
    """What a pruning method is like."""

    where: Literal["pixels", "features", "inside"]
    layers: tuple[float, ...] = ()
    """Its usual stages, as fractions of depth."""


METHODS: dict[PruningMethod, Method] = {
    "uniform": Method("pixels"),
    "random": Method("pixels"),
    "flat": Method("pixels"),
    "evs": Method("pixels"),
    "ui_graph": Method("pixels"),
    "tome": Method("features"),
    "svd": Method("features"),
    "saliency": Method("features"),
    "fastv": Method("inside", (2 / 32,)),
    "pyramid_drop": Method("inside", (8 / 32, 16 / 32, 24 / 32)),
    "btp": Method("inside", (4 / 28, 7 / 28, 16 / 28)),
    "sparsevlm": Method("inside", (2 / 32, 6 / 32, 15 / 32)),
}


class Pruning(Wire):
    """Which of a turn's new visual tokens the language model gets, or goes on with."""

    method: PruningMethod
    ratio: Annotated[float, Field(ge=0, le=0.95)] = 0.5
    """Share of the new tokens that is gone in the end. Methods with several stages come to it in
    equal steps: after stage s of S the share (1 - ratio) ** (s / S) is left."""
    layers: Annotated[list[Depth], Field(min_length=1, max_length=8)] | None = None
    """Of a method inside the model: where its stages are, as fractions of depth, ascending. None:
    the method's usual ones."""
    rows: Annotated[int, Field(ge=1, le=64)] = 1
    """Of ``fastv``: how many of the prompt's last tokens have a say."""
    min_tokens: Annotated[int, Field(ge=1, le=4096)] = 1
    """Of every item at least so many tokens stay, or all that it has."""
    adaptive: bool = False
    """Of ``sparsevlm``: a stage takes less where the attention's rank says that less is
    redundant."""
    recycle: bool = False
    """Of ``sparsevlm``: the best of the dropped tokens are merged, and some merged ones stay."""

    @model_validator(mode="after")
    def _fits_method(self) -> Pruning:
        method = METHODS[self.method]
        if self.layers is not None and method.where != "inside":
            raise ValueError(f"{self.method} works before the language model: it has no layers")
        if self.layers is not None and sorted(set(self.layers)) != self.layers:
            raise ValueError(f"layers ascend, and none is there twice: {self.layers}")
        if self.rows != 1 and self.method != "fastv":
            raise ValueError(f"rows are of fastv, not of {self.method}")
        if (self.adaptive or self.recycle) and self.method != "sparsevlm":
            raise ValueError(f"adaptive and recycle are of sparsevlm, not of {self.method}")
        return self

    @property
    def inside(self) -> bool:
        """Whether it works inside the language model."""
        return METHODS[self.method].where == "inside"


class Eviction(Wire):
    """Which of a turn's new visual tokens stay in the KV cache once it is answered."""

    method: EvictionMethod
    keep: Share = 0.3
    """Share of them that stays; of every item at least one token. ``vtw`` keeps an item's first and
    last token, whatever this says."""
    rows: Annotated[int, Field(ge=1, le=64)] = 8
    """Of ``attention`` and ``look_m``: how many of the prompt's last tokens have a say."""


class Compression(Wire):
    """What a session, or one turn of it, does to its visual tokens."""

    pruning: Pruning | None = None
    """None: every token that is sent is computed."""
    eviction: Eviction | None = None
    """None: what was computed stays until newer parts of the screen cover it."""

    @property
    def thins(self) -> bool:
        """Whether the engine chooses from tokens of items, inside the model or after the answer."""
        return self.eviction is not None or (self.pruning is not None and self.pruning.inside)


_Setting = TypeVar("_Setting", Pruning, Eviction)

Preset = Literal["off", "safe", "balanced", "lean"]
"""Named settings; what each costs is in the README's table."""

PRESETS: dict[Preset, Compression] = {
    "off": Compression(),
    "safe": Compression(pruning=Pruning(method="flat", ratio=0.3)),
    "balanced": Compression(eviction=Eviction(method="attention", keep=0.5)),
    "lean": Compression(eviction=Eviction(method="attention", keep=0.25)),
}


def parse_pruning(text: str) -> Pruning:
    """``METHOD``, ``METHOD:RATIO`` or a JSON object. Raises InvalidRequest."""
    return _parse(Pruning, text, "ratio", tuple(METHODS))


def parse_eviction(text: str) -> Eviction:
    """``METHOD``, ``METHOD:KEEP`` or a JSON object. Raises InvalidRequest."""
    return _parse(Eviction, text, "keep", get_args(EvictionMethod))


def _parse(kind: type[_Setting], text: str, share: str, known: tuple[str, ...]) -> _Setting:
    method, colon, value = text.partition(":")
    try:
        if text.startswith("{"):
            return kind.model_validate_json(text)
        return kind.model_validate({"method": method} | ({share: value} if colon else {}))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "as a whole"
        raise InvalidRequest(
            f"{kind.__name__.lower()} {text[:200]!r}, {where}: {first['msg']}",
            hint=f"write METHOD, METHOD:{share.upper()} or a JSON object; methods: "
            + ", ".join(known),
        ) from None


def stage_layers(pruning: Pruning, depth: int) -> list[int]:
    """Before which of ``depth`` layers the stages of a method inside the model are, from 1 on.

    Stages that fall together in a shallow model are moved apart. Raises InvalidRequest when it is
    too shallow for that.
    """
    fractions = pruning.layers or METHODS[pruning.method].layers
    layers: list[int] = []
    for fraction in fractions:
        after = layers[-1] if layers else 0
        layers.append(max(after + 1, round(fraction * depth)))
    if layers[-1] >= depth:
        raise InvalidRequest(
            f"{pruning.method} has {len(layers)} stages, the last at {fractions[-1]:g} of the "
            f"depth: a model of {depth} layers has no room for it before its last layer",
            hint="give fewer layers, or earlier ones",
        )
    return layers


def stage_shares(pruning: Pruning, stages: int) -> list[float]:
    """Which share of the tokens is left behind each stage."""
    return [(1 - pruning.ratio) ** (stage / stages) for stage in range(1, stages + 1)]


def kept_count(pruning: Pruning, tokens: int) -> int:
    """How many of an item's ``tokens``, at least one, stay when a method takes its full ratio."""
    # of 100 tokens 29 % are 29, though 100 * 0.29 is a little less
    dropped = int(tokens * pruning.ratio + 1e-9)
    return min(tokens, max(tokens - dropped, pruning.min_tokens))


def check_compression(compression: Compression, family: Family, depth: int) -> None:
    """Raises InvalidRequest for what a model of the family, with so many layers, cannot do."""
    pruning = compression.pruning
    if pruning is not None and pruning.inside and not family.prunes_inside:
        raise InvalidRequest(
            f"models of the family {family.name} cannot be pruned inside ({pruning.method})",
            hint="choose a method before the language model, or an eviction after the answer",
        )
    if pruning is not None and pruning.inside:
        stage_layers(pruning, depth)
