"""Visual items in a real worker, against ordinary images and against transformers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from PIL import Image

from agentserve.core.item_urls import PREFIX, TextAnchor
from agentserve.core.plans import Seal
from agentserve.engine.items.layout import Layout, lay_out, picture_of

from .asking import Worker
from .pictures import BEGIN, END, GRID, IMAGE, item, meta, plain, screen
from .reference import Reference

pytestmark = pytest.mark.timeout(900)

ROUNDING = 2e-3
"""Two fp32 computations of a log probability; a wrong position or pixel is 100 times further."""
FAR = 0.05
HEAD = "<|im_start|>user\nLook at the screen."
TAIL = "Click the button.<|im_end|>\n<|im_start|>assistant\n"
SCREEN = screen(1)
TOP, BOTTOM = (0, 0, 224, 140), (0, 140, 224, 140)
KEPT = list(range(0, 80, 3))


def prompt(*pictures: int, tail: str = TAIL) -> str:
    """HEAD, screens of so many parts each, TAIL."""
    return HEAD + "and".join(f"{BEGIN}{IMAGE * parts}{END}" for parts in pictures) + tail


def laid_out(worker: Worker, text: str | list[int], *metas, anchors: Sequence = ()) -> Layout:
    ids = worker.ids(text) if isinstance(text, str) else text
    return lay_out(ids, worker.image_token(), [picture_of(m, GRID) for m in metas], anchors)


def crop(box: tuple[int, int, int, int], image: Image.Image = SCREEN) -> Image.Image:
    x, y, width, height = box
    return image.crop((x, y, x + width, y + height))


class TestWholeScreen:
    def test_equals_the_ordinary_image_bit_for_bit(self, worker: Worker):
        stock = worker.ask_cold(prompt(1), [plain(SCREEN)])
        ours = worker.ask_cold(prompt(1), [item(SCREEN)])
        assert (ours.ids, ours.top) == (stock.ids, stock.top)
        assert ours.prompt_tokens == stock.prompt_tokens

    def test_shares_the_ordinary_image_s_cache(self, worker: Worker):
        worker.ask_cold(prompt(1), [plain(SCREEN)])
        base = len(worker.ids(HEAD)) + 1
        for url in (item(SCREEN), item(SCREEN, base=base), item(SCREEN, kept=range(80))):
            answer = worker.ask(prompt(1), [url])
            assert answer.cached == answer.prompt_tokens - 1

    def test_the_reference_agrees_with_the_ordinary_image(
        self, worker: Worker, reference: Reference
    ):
        answer = worker.ask_cold(prompt(1), [plain(SCREEN)])
        layout = laid_out(worker, prompt(1), meta(SCREEN))
        visual = [reference.embeddings(SCREEN)]
        assert answer.error(reference.logprobs(layout, visual, answer.ids)) < ROUNDING


class TestParts:
    def test_halves_have_the_positions_of_the_whole(self, worker: Worker, reference: Reference):
        halves = [item(SCREEN, TOP), item(SCREEN, BOTTOM)]
        answer = worker.ask_cold(prompt(2), halves)
        whole = laid_out(worker, prompt(1), meta(SCREEN))
        visual = [torch.cat([reference.embeddings(crop(box)) for box in (TOP, BOTTOM)])]
        assert answer.prompt_tokens == len(whole.ids)
        assert answer.error(reference.logprobs(whole, visual, answer.ids)) < ROUNDING

    def test_a_second_request_is_cached(self, worker: Worker):
        halves = [item(SCREEN, TOP), item(SCREEN, BOTTOM)]
        first = worker.ask_cold(prompt(2), halves)
        again = worker.ask(prompt(2), halves)
        assert again.cached == again.prompt_tokens - 1
        assert again.distance(first) < ROUNDING

    def test_a_place_is_part_of_the_identity(self, worker: Worker):
        """Equal pixels at other places share nothing."""
        pixels = crop(TOP)
        two = Image.new("RGB", (224, 280))
        two.paste(pixels, (0, 0))
        two.paste(pixels, (0, 140))
        before = len(worker.ids(HEAD)) + 1
        worker.ask_cold(prompt(1), [item(two, TOP)])
        assert worker.ask(prompt(1), [item(two, BOTTOM)]).cached == before
        assert worker.ask(prompt(1), [item(two, TOP, base=30)]).cached == before
        assert worker.ask(prompt(1), [item(two, TOP, time=30)]).cached == before

    def test_a_cell_smaller_than_the_processor_s_minimum(
        self, worker: Worker, reference: Reference
    ):
        box = (56, 84, 28, 28)
        answer = worker.ask_cold(prompt(1), [item(SCREEN, box)])
        layout = laid_out(worker, prompt(1), meta(SCREEN, box))
        visual = [reference.embeddings(crop(box))]
        assert answer.prompt_tokens == len(worker.ids(prompt(1)))  # one token
        assert answer.error(reference.logprobs(layout, visual, answer.ids)) < ROUNDING

    def test_text_behind_a_part_lies_behind_the_screen(self, worker: Worker, reference: Reference):
        box = (0, 0, 112, 112)
        answer = worker.ask_cold(prompt(1), [item(SCREEN, box, base=100, time=103)])
        layout = laid_out(worker, prompt(1), meta(SCREEN, box, base=100, time=103))
        assert layout.next_position == 100 + 10 + 1 + len(worker.ids(TAIL))
        visual = [reference.embeddings(crop(box))]
        assert answer.error(reference.logprobs(layout, visual, answer.ids)) < ROUNDING


class TestKeepSets:
    def test_a_subset_equals_the_reference(self, worker: Worker, reference: Reference):
        answer = worker.ask_cold(prompt(1), [item(SCREEN, kept=KEPT)])
        layout = laid_out(worker, prompt(1), meta(SCREEN, kept=KEPT))
        whole = reference.embeddings(SCREEN)
        right = reference.logprobs(layout, [whole[KEPT]], answer.ids)
        wrong = reference.logprobs(layout, [whole[[i + 1 for i in KEPT]]], answer.ids)
        assert answer.error(right) < ROUNDING
        assert answer.error(wrong) > FAR

    def test_a_second_request_is_cached_and_another_set_is_not(self, worker: Worker):
        worker.ask_cold(prompt(1), [item(SCREEN, kept=KEPT)])
        again = worker.ask(prompt(1), [item(SCREEN, kept=KEPT)])
        assert again.cached == again.prompt_tokens - 1
        other = worker.ask(prompt(1), [item(SCREEN, kept=[i + 1 for i in KEPT])])
        assert other.prompt_tokens == again.prompt_tokens
        assert other.cached == len(worker.ids(HEAD)) + 1
        assert worker.ask(prompt(1), [item(SCREEN)]).cached == len(worker.ids(HEAD)) + 1

    def test_several_with_an_ordinary_picture(self, worker: Worker, reference: Reference):
        other = screen(2, 140, 84)
        urls = [item(SCREEN, TOP, kept=KEPT[:10]), item(SCREEN, BOTTOM), plain(other)]
        answer = worker.ask_cold(prompt(2, 1), urls)
        metas = [meta(SCREEN, TOP, kept=KEPT[:10]), meta(SCREEN, BOTTOM), meta(other)]
        layout = laid_out(worker, prompt(2, 1), *metas)
        visual = [
            reference.embeddings(crop(TOP))[KEPT[:10]],
            reference.embeddings(crop(BOTTOM)),
            reference.embeddings(other),
        ]
        assert answer.error(reference.logprobs(layout, visual, answer.ids)) < ROUNDING
        again = worker.ask(prompt(2, 1), urls)
        assert again.cached == again.prompt_tokens - 1

    def test_batched_with_others(self, worker: Worker):
        prompts = [
            (prompt(1), [item(SCREEN, kept=KEPT)]),
            (prompt(1), [plain(screen(2, 140, 84))]),
            (prompt(2), [item(SCREEN, TOP), item(SCREEN, BOTTOM, kept=KEPT[:5])]),
            ("Hello", []),
        ]
        alone = [worker.ask_cold(*entry) for entry in prompts]
        together = worker.ask_together(prompts)
        for one, other in zip(alone, together, strict=True):
            assert one.ids == other.ids
            assert one.distance(other) < ROUNDING


class TestSeals:
    SEAL = Seal(history="5e" * 32)

    def test_an_item_s_seal_parts_it_from_its_twin(self, worker: Worker):
        plainly = worker.ask_cold(prompt(1), [item(SCREEN, TOP)])
        sealed = item(SCREEN, TOP, seal=self.SEAL)
        first = worker.ask(prompt(1), [sealed])
        assert first.cached == len(worker.ids(HEAD)) + 1
        assert first.distance(plainly) < ROUNDING
        assert worker.ask(prompt(1), [sealed]).cached == first.prompt_tokens - 1
        later = item(SCREEN, TOP, seal=Seal(history="5f" * 32))
        assert worker.ask(prompt(1), [later]).cached == first.cached

    def test_text_s_seal_parts_it_from_there_on(self, worker: Worker):
        ids = worker.ids(prompt(1))
        index = len(ids) - 6
        plainly = worker.ask_cold(ids, [item(SCREEN)])
        sealed = item(SCREEN, texts=[TextAnchor(index=index, seal=self.SEAL)])
        first = worker.ask(ids, [sealed])
        assert first.cached == plainly.prompt_tokens - 6
        assert first.distance(plainly) < ROUNDING  # the same embedding
        assert worker.ask(ids, [sealed]).cached == first.prompt_tokens - 1

    def test_text_at_a_position_of_its_own(self, worker: Worker, reference: Reference):
        ids = worker.ids(prompt(1))
        anchor = TextAnchor(index=len(ids) - 6, position=200)
        url = item(SCREEN, TOP, texts=[anchor])
        unmoved = worker.ask_cold(ids, [item(SCREEN, TOP)])
        answer = worker.ask(ids, [url])
        assert answer.cached == answer.prompt_tokens - 6
        layout = laid_out(worker, ids, meta(SCREEN, TOP), anchors=[anchor])
        visual = [reference.embeddings(crop(TOP))]
        assert answer.error(reference.logprobs(layout, visual, answer.ids)) < ROUNDING
        assert answer.distance(unmoved) > FAR


class TestRefusals:
    @pytest.mark.parametrize(
        ("url", "fields", "message"),
        [
            (item(SCREEN), {"mm_hashes": ["0f"]}, "mm_hashes cannot be combined"),
            (item(SCREEN), {"sampling_params": {"n": 2}}, "n must be 1"),
            (item(SCREEN, (14, 0, 56, 56)), {}, "28 px grid"),
            (item(SCREEN, base=32_750), {}, "the model ends at 32768"),
            (item(SCREEN, (0, 0, 28, 28))[:-40], {}, ""),
            (f"{PREFIX}e30=;base64,iVBO", {}, "metadata, screen: Field required"),
        ],
        ids=["mm_hashes", "n", "grid", "position", "truncated", "malformed"],
    )
    def test_answers_400_and_lives_on(self, worker: Worker, url: str, fields: dict, message: str):
        answer = worker.post(prompt(1), [url], **fields)
        assert answer.status_code == 400
        assert message in answer.json()["error"]["message"]
        assert worker.ask(prompt(1), [plain(SCREEN)]).prompt_tokens > 80

    def test_another_number_of_pictures(self, worker: Worker):
        answer = worker.post(prompt(2), [item(SCREEN)])
        assert answer.status_code == 400
        assert "2 image tokens for 1 pictures" in answer.json()["error"]["message"]

    def test_text_instead_of_ids(self, worker: Worker):
        body = {"text": prompt(1), "image_data": [item(SCREEN)]}
        answer = worker.client.post("/generate", json=body)
        assert answer.status_code == 400
        assert "input_ids" in answer.json()["error"]["message"]
