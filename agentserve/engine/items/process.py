"""In the HTTP server's process: from a request with visual items to what the scheduler runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from agentserve.core.errors import InvalidRequest
from agentserve.core.families import family_of
from agentserve.core.item_urls import PREFIX, After, ItemMeta, parse_item_url
from agentserve.engine import compat_items as compat
from agentserve.engine.eviction.change import plan_change
from agentserve.engine.items.carried import Carried
from agentserve.engine.items.identity import (
    item_embedding,
    item_identity,
    text_embedding,
    text_identity,
)
from agentserve.engine.items.layout import (
    Layout,
    Picture,
    SealedText,
    Span,
    lay_out,
    picture_of,
)
from agentserve.engine.items.media import check_media
from agentserve.engine.items.salting import mark, salt_of

_DEFAULT_MAX_NEW_TOKENS = 128
"""SGLang's own, for a request that names none."""
_REFUSED = {
    "mm_hashes": "they would replace the items' identities",
    "mm_content_hashes": "items are identified by their pixels",
    "video_data": "a prompt has items and pictures only",
    "audio_data": "a prompt has items and pictures only",
    "session_params": "an SGLang session would give its later prompts other positions",
}


def refuse_unfit(manager: Any, request: Any) -> None:
    """BEFORE TokenizerManager._tokenize_one_request: what items cannot be combined with.

    Without it a model of another family would take an item for an ordinary picture.
    """
    with compat.bad_request():
        check_media(request, compat.image_url, fetches=compat.fetches_media(manager))
    sources = request.image_data
    urls = map(compat.image_url, sources if isinstance(sources, list) else [sources])
    if any(url is not None and url.startswith(PREFIX) for url in urls):
        with compat.bad_request():
            _check_family(manager.model_config.hf_config.architectures[0])
            _check_request(request)


async def process_items(
    original: Callable[..., Awaitable[Any]],
    processor: Any,
    image_data: list[Any] | None,
    input_text: str | list[int],
    request_obj: Any,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """AROUND QwenVLImageProcessor.process_mm_data_async.

    A request without visual items goes the stock way, untouched but for its cache salt.
    """
    with compat.bad_request():
        urls = [compat.image_url(source) for source in image_data or ()]
        metas = [None if url is None else parse_item_url(url) for url in urls]
        if any(metas):
            return await _process(processor, image_data, metas, input_text, request_obj)
    output = await original(processor, image_data, input_text, request_obj, *args, **kwargs)
    mark(output, salt_of(request_obj))
    return output


async def _process(
    processor: Any,
    sources: list[Any],
    metas: Sequence[ItemMeta | None],
    ids: str | list[int],
    request: Any,
) -> Any:
    if isinstance(ids, str):
        raise InvalidRequest(
            "a prompt with visual items is sent as input_ids",
            hint="text would be tokenised anew, and its anchors have no index",
        )
    facts = compat.processor_facts(processor)
    pictures = [None if meta is None else picture_of(meta, facts.grid) for meta in metas]
    # an item that may turn out to be an ordinary image is prepared as one: it then has its hash
    stock = [i for i, picture in enumerate(pictures) if picture is None or _is_whole(picture)]
    salt = salt_of(request)
    patches = dict(
        zip(stock, await compat.image_patches(processor, _pick(sources, stock), salt), strict=True)
    )
    for i in stock:
        rows, columns = patches[i].rows, patches[i].columns
        if pictures[i] is None:
            pictures[i] = Picture((rows, columns), (0, 0, rows, columns))
    anchors = [anchor for meta in metas if meta is not None for anchor in meta.texts]
    layout = lay_out(ids, facts.image_token, pictures, anchors)
    _check_positions(layout, facts.max_position, request)
    as_is = [
        i
        for i, (picture, span) in enumerate(zip(pictures, layout.spans, strict=True))
        if not _is_ordinary(patches.get(i), picture, span)
    ]
    placed = await compat.image_patches(processor, _pick(sources, as_is), salt, resize=False)
    patches |= dict(zip(as_is, placed, strict=True))
    items = [
        (span.start, _item(patches[i], picture, span))
        for i, (picture, span) in enumerate(zip(pictures, layout.spans, strict=True))
    ]
    if (after := _after(metas)) is not None:
        _check_choice(after, request)

        def identify(i: int, picture: Picture, span: Span) -> bytes | None:
            return _identity(patches[i], picture, span)

        def content(i: int) -> str:
            return patches[i].content

        change = plan_change(after, ids, facts.image_token, pictures, layout, identify, content)
        items[0][1].model_specific_data |= change.pack()
    items += [(text.index, _sealed_text(text)) for text in layout.sealed]
    items.sort(key=lambda entry: entry[0])  # the model scatters embeddings in this order
    return compat.processor_output(
        processor, layout.ids, [item for _, item in items], layout.positions, layout.next_position
    )


def _item(patches: compat.Patches, picture: Picture, span: Span) -> Any:
    item = compat.image_item(patches, span.start, span.end)
    if picture.item:
        carried = Carried(
            content=patches.content,
            screen=picture.screen,
            box=picture.box,
            base=span.base,
            time=span.time,
            kept=None if picture.kept is None else tuple(picture.kept.tolist()),
            selection=picture.selection and picture.selection.model_dump_json(),
            history=picture.seal and picture.seal.history,
        )
        item.model_specific_data |= carried.pack()
    identity = _identity(patches, picture, span)
    if identity is not None:
        compat.set_identity(
            item, identity=identity, embedding=item_embedding(patches.content, picture)
        )
    return item


def _identity(patches: compat.Patches, picture: Picture, span: Span) -> bytes | None:
    """None: it is an ordinary image, and has that's hash."""
    if _is_ordinary(patches, picture, span):
        return None
    return item_identity(patches.content, picture, span)


def _is_ordinary(patches: compat.Patches | None, picture: Picture, span: Span) -> bool:
    """Whether nothing tells a picture from an ordinary image; ``patches`` are those of one."""
    if not picture.item:
        return True
    if patches is None or not span.ordinary:
        return False
    return (patches.rows, patches.columns) == picture.screen


def _after(metas: Sequence[ItemMeta | None]) -> After | None:
    """What becomes of the prompt; it comes with the first item."""
    afters = [meta.after for meta in metas if meta is not None]
    if any(after is not None for after in afters[1:]):
        raise InvalidRequest("what stays after the answer is told with the first item only")
    return afters[0]


def _sealed_text(text: SealedText) -> Any:
    carried = Carried(
        base=text.position,
        time=text.position,
        history=text.seal and text.seal.history,
        token=text.token,
    )
    item = compat.text_item(text.index, carried.pack())
    compat.set_identity(item, identity=text_identity(text), embedding=text_embedding(text))
    return item


def _is_whole(picture: Picture) -> bool:
    """Whether the picture is an ordinary image, if it also lies where one would."""
    whole = picture.box == (0, 0, *picture.screen)
    return whole and picture.kept is None and picture.seal is None


def _pick(sources: Sequence[Any], indices: Sequence[int]) -> list[Any]:
    return [sources[i] for i in indices]


def _check_family(architecture: str) -> None:
    family = family_of(architecture)
    if not family.mrope:
        raise InvalidRequest(
            f"the family {family.name} has no positions in rows and columns: no visual items",
            hint="send ordinary pictures",
        )


def _check_request(request: Any) -> None:
    for name, reason in _REFUSED.items():
        if getattr(request, name, None):
            raise InvalidRequest(f"{name} cannot be combined with visual items: {reason}")
    n = _sampling(request).get("n", 1)
    if n != 1:
        raise InvalidRequest(f"n must be 1 with visual items, not {n}", hint="fork the session")


def _check_choice(after: After, request: Any) -> None:
    """A token that is gone has no logits, and no states to return."""
    if after.pruning is None:
        return
    start = getattr(request, "logprob_start_len", None)
    if getattr(request, "return_logprob", False) and start is not None and start >= 0:
        raise InvalidRequest(
            f"logprobs of the prompt cannot be told when {after.pruning.method} drops tokens of it",
            hint="ask for those of the answer (logprob_start_len -1), or send no pruning",
        )
    if getattr(request, "return_hidden_states", False):
        raise InvalidRequest(
            f"hidden states cannot be told when {after.pruning.method} drops tokens of the prompt"
        )


def _check_positions(layout: Layout, limit: int, request: Any) -> None:
    """The rotary embeddings are a table: beyond its end the scheduler would fail, not the request.

    Positions can be ahead of the number of tokens, so SGLang's limit on these does not do.
    """
    new = _sampling(request).get("max_new_tokens", _DEFAULT_MAX_NEW_TOKENS)
    if new is None:  # until the context is full
        new = limit - len(layout.ids)
    last = int(max(layout.positions.max(initial=0), layout.next_position + new))
    if last >= limit:
        raise InvalidRequest(
            f"the prompt and {new} new tokens reach position {last}; the model ends at {limit}",
            hint="restart the prompt with smaller positions, or ask for fewer tokens",
        )


def _sampling(request: Any) -> dict[str, Any]:
    return getattr(request, "sampling_params", None) or {}
