"""What a request with visual items is refused for before anything runs."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from agentserve.engine.items.process import process_items, refuse_unfit

from .pictures import item, plain, screen

ITEM = item(screen(1))


def manager(
    architecture: str = "Qwen2_5_VLForConditionalGeneration", domains: Sequence[str] = ()
) -> SimpleNamespace:
    config = SimpleNamespace(architectures=[architecture])
    return SimpleNamespace(
        model_config=SimpleNamespace(hf_config=config),
        server_args=SimpleNamespace(allowed_media_domains=list(domains)),
    )


def request(image_data: Any = (ITEM,), **fields: Any) -> SimpleNamespace:
    data = list(image_data) if isinstance(image_data, tuple) else image_data
    return SimpleNamespace(image_data=data, sampling_params={"n": 1}, **fields)


@pytest.mark.parametrize(
    "image_data",
    [
        ITEM,
        [plain(screen(1)), ITEM],
        [{"url": ITEM}],
        [SimpleNamespace(url=ITEM)],
    ],
    ids=["alone", "with another", "dict", "ImageData"],
)
def test_an_item_is_seen_however_it_is_sent(image_data: Any):
    with pytest.raises(ValueError, match="no facts about the architecture 'Llava'"):
        refuse_unfit(manager("Llava"), request(image_data))


@pytest.mark.parametrize("image_data", [None, [], [plain(screen(1))], b"PNG", [[None]]])
def test_other_requests_are_left_alone(image_data: Any):
    refuse_unfit(manager("Llava"), request(image_data, mm_hashes=["0f"]))


@pytest.mark.parametrize(
    "source",
    [
        "http://10.0.0.1/latest/meta-data",
        "https://example.com/a.png",
        {"url": "http://localhost:6379/x"},
        SimpleNamespace(url="https://example.com/a"),
        "file:///etc/passwd",
        "/etc/passwd",
        "/etc/hostname.png",
        "../secrets/key.png",
        "etc/pass.jpg",
        "ftp://example.com/a",
        "HTTP://example.com/a",
        " http://example.com/a",
        "",
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_nothing_is_fetched_or_opened(source: Any, nested: bool):
    sources = [[source]] if nested else [source]
    for kind in ("image_data", "video_data", "audio_data"):
        asked = request(None) if kind != "image_data" else request(sources)
        setattr(asked, kind, sources)
        with pytest.raises(ValueError, match=f"{kind} (names|is neither)"):
            refuse_unfit(manager(), asked)


def test_a_worker_fetches_from_the_domains_that_it_was_given():
    remote = request(["https://example.com/a.png"])
    refuse_unfit(manager(domains=["example.com"]), remote)  # which domain is SGLang's to check
    with pytest.raises(ValueError, match="neither a data: URL"):
        refuse_unfit(manager(domains=["example.com"]), request(["/etc/passwd"]))


@pytest.mark.parametrize("kind", ["video_data", "audio_data"])
def test_a_path_of_a_video_may_look_like_base64(kind: str):
    asked = request(None)
    setattr(asked, kind, ["etc"])
    with pytest.raises(ValueError, match=f"{kind} is neither"):
        refuse_unfit(manager(), asked)
    setattr(asked, kind, ["data:video/mp4;base64,AAAA"])
    refuse_unfit(manager(), asked)


def test_base64_is_what_it_says():
    refuse_unfit(manager(), request(["iVBORw0KGgo=", "A" * 10_000 + "\n"]))


@pytest.mark.parametrize(
    "field", ["mm_hashes", "mm_content_hashes", "video_data", "audio_data", "session_params"]
)
def test_what_items_cannot_be_combined_with(field: str):
    refuse_unfit(manager(), request(**{field: None}))
    with pytest.raises(ValueError, match=f"{field} cannot be combined with visual items"):
        refuse_unfit(manager(), request(**{field: ["data:,x"]}))


def test_several_answers_to_one_prompt():
    several = request()
    several.sampling_params = {"n": 2}
    with pytest.raises(ValueError, match="n must be 1 with visual items, not 2"):
        refuse_unfit(manager(), several)


async def test_a_request_without_items_reaches_the_original_untouched():
    async def original(*args: Any, **kwargs: Any) -> tuple:
        return args, kwargs

    processor, asked = object(), request([plain(screen(1))])
    for data in (asked.image_data, None):
        answer = await process_items(
            original,
            processor,
            image_data=data,
            input_text=[1, 2],
            request_obj=asked,
            max_req_input_len=9,
        )
        assert answer == ((processor, data, [1, 2], asked), {"max_req_input_len": 9})


async def test_malformed_metadata_is_a_value_error():
    async def original(*_: Any, **__: Any) -> None:
        raise AssertionError("not reached")

    bad = ITEM.replace("agentserve=", "agentserve=%")
    with pytest.raises(ValueError, match="not base64"):
        await process_items(original, object(), [bad], [1], request((bad,)))
