"""What a request with visual items is refused for before anything runs."""

from types import SimpleNamespace
from typing import Any

import pytest

from agentserve.engine.items.process import process_items, refuse_unfit

from .pictures import item, plain, screen

ITEM = item(screen(1))


def manager(architecture: str = "Qwen2_5_VLForConditionalGeneration") -> SimpleNamespace:
    config = SimpleNamespace(architectures=[architecture])
    return SimpleNamespace(model_config=SimpleNamespace(hf_config=config))


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
    "field", ["mm_hashes", "mm_content_hashes", "video_data", "audio_data", "session_params"]
)
def test_what_items_cannot_be_combined_with(field: str):
    refuse_unfit(manager(), request(**{field: None}))
    with pytest.raises(ValueError, match=f"{field} cannot be combined with visual items"):
        refuse_unfit(manager(), request(**{field: ["x"]}))


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
