"""What the nano model is made of: sizes, weight scales, special tokens, the tokenizer's corpus.

Everything that decides a byte of the checkpoint stands here or in the modules that read it; the
folder name in the cache is a hash of these files.
"""

from __future__ import annotations

from typing import Any

SEED = 20_251
CONTEXT_LENGTH = 32_768
MERGES = 600
"""Byte-pair merges that are learned from CORPUS, at most."""

# One entry per token that the Qwen2.5-VL tokenizer treats as special, in its order.
SPECIAL_TOKENS = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>",
    "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>", "<|box_end|>",
    "<|quad_start|>", "<|quad_end|>",
    "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>",
)  # fmt: skip
MAY_BE_WRITTEN = ("<|endoftext|>", "<|im_end|>")
"""The special tokens a random model may generate; the others' output rows are zero, so that a
sampled answer does not hold the placeholder of a picture."""

GRID = 28
"""Edge of one merged visual token, in px: patches of 14 px, merged two by two."""
MIN_PIXELS = 4 * GRID * GRID
MAX_PIXELS = 2048 * GRID * GRID
"""A screen whose sides are multiples of GRID and whose area lies between the two is never resized;
1344 x 896 px are 1,536 tokens."""

TEXT: dict[str, Any] = {
    "hidden_size": 256,
    "intermediate_size": 704,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": CONTEXT_LENGTH,
    # of the 32 rotary frequencies of a head: time, height, width
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 1_000_000.0,
        "mrope_section": [8, 12, 12],
    },
    "tie_word_embeddings": False,
}
VISION: dict[str, Any] = {
    "depth": 4,
    "hidden_size": 192,
    "intermediate_size": 512,
    "num_heads": 3,
    "out_hidden_size": TEXT["hidden_size"],
    "patch_size": 14,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "window_size": 112,
    "fullatt_block_indexes": [3],
    "tokens_per_second": 2,
}

# The end of a parameter's name -> (standard deviation, divided by the square root of fan-in?).
# The first match counts. Output rows are large on purpose: with the usual 0.02 the logits of a
# random model are so flat that right and wrong look alike in bf16.
WEIGHT_SCALES: tuple[tuple[str, float, bool], ...] = (
    ("lm_head.weight", 0.2, False),
    ("embed_tokens.weight", 1.0, False),
    (".bias", 0.1, False),
    ("patch_embed.proj.weight", 3.0, True),
    ("merger.mlp.2.weight", 2.0, True),
    ("q_proj.weight", 1.5, True),
    ("k_proj.weight", 1.5, True),
    (".weight", 1.0, True),
)

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message['role'] + '\\n' -}}"
    "{%- if message['content'] is string -%}"
    "{{- message['content'] -}}"
    "{%- else -%}"
    "{%- for part in message['content'] -%}"
    "{%- if part['type'] in ('image', 'image_url') -%}"
    "{{- '<|vision_start|><|image_pad|><|vision_end|>' -}}"
    "{%- elif part['type'] == 'video' -%}"
    "{{- '<|vision_start|><|video_pad|><|vision_end|>' -}}"
    "{%- else -%}"
    "{{- part['text'] -}}"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- endif -%}"
    "{{- '<|im_end|>\\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}"
    "{{- '<|im_start|>assistant\\n' -}}"
    "{%- endif -%}"
)

CORPUS = """
system user assistant
You are an agent that works in a web browser. You see a screenshot of the page and answer with one
action. Write a short thought, then the action on one line. Points are pixels of the screenshot,
from the top left corner. Do only what the task says. When the task is done, answer done success.
If the task cannot be done, answer done failure. If you need help, answer call_user.
Task: Instruction: Thought: Action: Answer: The last action was invalid: The last action failed:
The action had no effect. Try another one. What does the screen show now? Is the task done?
Answer yes or no. yes no
click 112 84
click 10 20 right
click 30 40 middle
double_click 112 84
hover 112 84
drag 10 20 90 20
scroll 112 84 0 240
scroll 112 84 0 -240
key Enter
key Tab
key Escape
key Backspace
key Control+a
key ArrowDown
type "text"
wait 1
wait 2
navigate "http://127.0.0.1/"
back
done success
done success "text"
done failure
call_user "text"
Click the button. Click on the "OK" button. Click on the "Submit" button. Click on the "Cancel"
button. Click on the "Next" button. Click on the "Previous" button. Click button ONE, then click
button TWO. Click on the link "text". Click on the tab "Tab #1". Switch between the tabs to find
and click on the link. Select the checkbox and click Submit. Select words similar to and click
Submit. Select nothing and click Submit. Select "text" from the list and click Submit. Select the
option from the dropdown. Enter the username "user" and the password "pass" into the text fields
and press login. Enter "text" into the text field and press Submit. Enter the date in the form.
Type the text below into the text field and press Submit. Solve the math problem and type your
answer into the textbox. Press submit when done. Focus into the input textbox. Focus into the 1st
input textbox. Focus into the 2nd input textbox. Focus into the 3rd input textbox. Close the dialog
box by clicking the "x". Click the button in the dialog box labeled "Close". Expand the section
below and click submit. Expand the sections below, to find and click on the link. Drag the items
into the box. Scroll the textarea to the bottom of the text hit submit. Search for the term and
open the first result. Find the email by the sender and click the trash icon to delete it. Find the
email and click the star icon to mark it as important. Forward the email to. Reply to the email
with the text. Click on a large red rectangle. Click on a small blue circle. Click on a green
triangle. How many items are there? Count the sides of the shape. Buy a ticket from to on. Book the
shortest one-way flight. Open the menu. Open the page of the user. Open settings. Save changes.
Log in. Log out. Sign up. Sign in. Forgot password? Remember me. Register account. First name. Last
name. Email address. Phone. Address. City. Country. Search for. Filter. Sort by. Dashboard. Charts.
Tables. Components. Utilities. Pages. Alerts. Messages. Activity log. Profile. Earnings monthly.
Earnings annual. Tasks. Pending requests. Revenue sources. Projects. Name Position Office Age Start
date Salary. Showing 1 to 10 of entries. Show entries. Cards. Buttons. Colors. Borders. Animations.
Admin. Logout. Cancel. Generate report. Toggle the sidebar. Choose the item. Set the value to.
left right top bottom up down center first second third fourth last next previous red green blue
yellow black white orange purple pink gray button link field text box input checkbox radio slider
menu list table row column cell image icon header footer sidebar page window dialog tab password
"""
