"""The bundled weights give the same log-probabilities in transformers and in a real SGLang worker,
on fifty real screens, each with the prompt and the answer of an expert."""

import base64
import io

import httpx
import pytest
import torch
from PIL import Image

from agentserve.browser.launch import launch_browser
from agentserve.browser.scenarios import load_scenario, open_scenario
from agentserve.core.actions import format_action
from agentserve.core.screens import screen_space
from agentserve.nano import nano_path
from agentserve.nano.oracles import next_step, to_action
from agentserve.nano.tasks import SINGLE_TURN
from agentserve.nano.train.prompts import Answer, Speller, write_single

pytestmark = pytest.mark.filterwarnings("ignore")  # transformers' own

SCREENS = 50
TOLERANCE = 2e-3
"""Of a log-probability, in fp32: the order of sums differs."""


async def expert_screens() -> list[tuple[bytes, str, Answer]]:
    """PNG of a first screen, its goal, what the expert would answer."""
    found = []
    async with launch_browser() as browser:
        for number in range(SCREENS):
            task = SINGLE_TURN[number % len(SINGLE_TURN)]
            scenario = load_scenario(f"miniwob/{task}", seed=number)
            space = screen_space(scenario.viewport, scenario.scale, 28)
            async with open_scenario(browser, scenario) as stage:
                stage.computer.fit(space)
                png = await stage.computer.screenshot()
                step = await next_step(stage.computer.page, task, stage.goal)
                action = format_action(to_action(step, space))
                found.append((png, stage.goal, Answer(step.thought, action)))
    return found


@pytest.mark.timeout(600)
async def test_transformers_and_sglang_agree_on_fifty_screens(worker_url: str):
    from transformers import AutoProcessor, Qwen2_5_VLForConditionalGeneration

    speller = Speller()
    model = Qwen2_5_VLForConditionalGeneration.from_pretrained(nano_path(), dtype=torch.float32)
    processor = AutoProcessor.from_pretrained(nano_path())
    worst = 0.0
    spread: set[float] = set()
    async with httpx.AsyncClient(base_url=worker_url, timeout=120) as client:
        for png, goal, answer in await expert_screens():
            tokens = write_single(speller, 10, 8, [(goal, answer)])
            ids = [*speller.prefix(), *tokens.ids]
            learned = sum(tokens.learned)
            body = {
                # one placeholder a picture: SGLang puts in as many tokens as it has
                "input_ids": one_placeholder(ids, speller.image),
                "image_data": ["data:image/png;base64," + base64.b64encode(png).decode()],
                "sampling_params": {"temperature": 0, "max_new_tokens": 1},
                "return_logprob": True,
                "logprob_start_len": 0,
            }
            told = (await client.post("/generate", json=body)).raise_for_status().json()
            theirs = [entry[0] for entry in told["meta_info"]["input_token_logprobs"][-learned:]]
            whole = torch.tensor([ids])
            picture = processor.image_processor([Image.open(io.BytesIO(png))], return_tensors="pt")
            with torch.no_grad():
                logits = model(
                    input_ids=whole,
                    attention_mask=torch.ones_like(whole),
                    mm_token_type_ids=(whole == speller.image).int(),
                    **picture,
                ).logits[0]
            likely = logits.log_softmax(-1)[-learned - 1 : -1]
            ours = likely.gather(1, whole[0, -learned:, None])[:, 0].tolist()
            worst = max(worst, *(abs(a - b) for a, b in zip(ours, theirs, strict=True)))
            spread.update(round(value, 3) for value in ours)
    assert len(spread) > 100  # not one number again and again
    assert worst < TOLERANCE


def one_placeholder(ids: list[int], image: int) -> list[int]:
    return [token for i, token in enumerate(ids) if token != image or ids[i - 1] != image]
