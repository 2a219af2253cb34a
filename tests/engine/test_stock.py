"""Against a stock SGLang server, started the same way without the plugin: equal numbers, and a
clean end."""

import os
import signal

import httpx
import pytest
from tokenizers import Tokenizer

from .exactness import PROMPTS, logprobs
from .processes import still_running


@pytest.mark.timeout(400)
async def test_the_plain_worker_is_stock(plain_worker):
    async with httpx.AsyncClient(base_url=plain_worker.url) as client:
        assert (await client.get("/health")).status_code == 200
        assert (await client.get("/agentserve")).status_code == 404


@pytest.mark.parametrize("prompt", PROMPTS)
async def test_logprobs_with_the_plugin_equal_those_without_bit_for_bit(
    prompt: str, plain_worker, worker_url: str
):
    async with httpx.AsyncClient() as client:
        text = (await client.get(f"{worker_url}/agentserve/tokenizer")).text
    tokenizer = Tokenizer.from_str(text)
    ours = await logprobs(worker_url, tokenizer, prompt)
    stock = await logprobs(plain_worker.url, tokenizer, prompt)
    assert len(ours["input_token_logprobs"]) == ours["prompt_tokens"]
    assert len({value for value, *_ in ours["output_token_logprobs"]}) > 1
    assert ours == stock


def test_ctrl_c_leaves_no_process(plain_worker):
    """The last test of this module: it stops the worker."""
    family = plain_worker.family()
    assert len(family) >= 3  # server, scheduler, detokenizer
    os.killpg(plain_worker.process.pid, signal.SIGINT)  # as a terminal does
    plain_worker.process.wait(60)
    assert still_running(family, 10) == []
