"""The nano model in plain PyTorch, for training: fixed shapes, all pictures of a batch at once.

It computes what transformers' Qwen2_5_VLForConditionalGeneration computes and has its parameters
under its names, so weights pass between the two unchanged. transformers' own code runs the windows
of the vision encoder one after the other, which is several times slower on a CPU.

Shapes: N pictures of one size, each T merged tokens of 2x2 patches; B sequences of L tokens, and a
prefix of P tokens that all of them share (the system text), computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from agentserve.nano import recipe

_MEAN = (0.48145466, 0.4578275, 0.40821073)
_STD = (0.26862954, 0.26130258, 0.27577711)


class RMSNorm(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), 1e-6)


class SwiGLU(nn.Module):
    def __init__(self, size: int, inner: int, bias: bool) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(size, inner, bias=bias)
        self.up_proj = nn.Linear(size, inner, bias=bias)
        self.down_proj = nn.Linear(inner, size, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding: ``x`` [..., d], ``cos`` and ``sin`` broadcast to it."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Attention of q [..., L, d] to k and v [..., M, d]; ``mask``, if any, is added to the scores.

    Written out: on a CPU with bf16 matrix units it is several times faster, backwards above all,
    than the fused kernel with a mask.
    """
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
    if mask is not None:
        scores = scores + mask
    return scores.float().softmax(-1).to(v.dtype) @ v


def hide(visible: Tensor, dtype: torch.dtype) -> Tensor:
    """The mask that is added to scores: 0 where ``visible``, minus infinity elsewhere."""
    return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill(
        ~visible, float("-inf")
    )


# ------------------------------------------------------------------------------ vision encoder


@dataclass(frozen=True)
class Patches:
    """How the patches of a picture lie: units of 2x2 patches, windows of ``edge`` x ``edge`` units.

    Units that windows lack at the right and at the bottom are filled up and masked.
    """

    rows: int
    columns: int
    edge: int
    cos: Tensor
    """[4 * rows * columns, head_dim], like sin: the rotary embedding of every patch."""
    sin: Tensor
    mask: Tensor
    """[windows, 1, 1, 4 * edge * edge]: minus infinity where a window's key is filling."""

    def windows(self, x: Tensor) -> Tensor:
        """[N, heads, patches, d] → [N, windows, heads, patches of a window, d]."""
        n, heads, _, d = x.shape
        e, down, right = self.edge, -self.rows % self.edge, -self.columns % self.edge
        x = x.view(n, heads, self.rows, self.columns, 4 * d)
        x = F.pad(x, (0, 0, 0, right, 0, down))
        x = x.view(n, heads, (self.rows + down) // e, e, (self.columns + right) // e, e, 4 * d)
        return x.permute(0, 2, 4, 1, 3, 5, 6).reshape(n, -1, heads, 4 * e * e, d)

    def whole(self, x: Tensor) -> Tensor:
        """The way back."""
        n, _, heads, _, d = x.shape
        e, down, right = self.edge, -self.rows % self.edge, -self.columns % self.edge
        high, wide = self.rows + down, self.columns + right
        x = x.view(n, high // e, wide // e, heads, e, e, 4 * d).permute(0, 3, 1, 4, 2, 5, 6)
        x = x.reshape(n, heads, high, wide, 4 * d)[:, :, : self.rows, : self.columns]
        return x.reshape(n, heads, -1, d)


class VisionAttention(nn.Module):
    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(size, 3 * size)
        self.proj = nn.Linear(size, size)

    def forward(self, x: Tensor, patches: Patches, whole: bool) -> Tensor:
        n, length, size = x.shape
        qkv = self.qkv(x).view(n, length, 3, self.heads, size // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each [n, heads, length, d]
        q, k = rotate(q, patches.cos, patches.sin), rotate(k, patches.cos, patches.sin)
        if whole:
            out = attend(q, k, v, None)
        else:
            q, k, v = (patches.windows(part.contiguous()) for part in (q, k, v))
            out = patches.whole(attend(q, k, v, patches.mask))
        return self.proj(out.transpose(1, 2).reshape(n, length, size))


class VisionBlock(nn.Module):
    def __init__(self, size: int, inner: int, heads: int) -> None:
        super().__init__()
        self.norm1 = RMSNorm(size)
        self.norm2 = RMSNorm(size)
        self.attn = VisionAttention(size, heads)
        self.mlp = SwiGLU(size, inner, bias=True)

    def forward(self, x: Tensor, patches: Patches, whole: bool) -> Tensor:
        x = x + self.attn(self.norm1(x), patches, whole)
        return x + self.mlp(self.norm2(x))


class PatchEmbed(nn.Module):
    def __init__(self, size: int, patch: int) -> None:
        super().__init__()
        self.proj = nn.Conv3d(3, size, (2, patch, patch), (2, patch, patch), bias=False)

    def forward(self, patches: Tensor) -> Tensor:
        """``patches`` [N, P, 3 * patch * patch]. A still picture is two equal frames."""
        return F.linear(patches, self.proj.weight.sum(2).flatten(1))


class Merger(nn.Module):
    def __init__(self, size: int, out: int) -> None:
        super().__init__()
        self.ln_q = RMSNorm(size)
        self.mlp = nn.Sequential(nn.Linear(4 * size, 4 * size), nn.GELU(), nn.Linear(4 * size, out))

    def forward(self, x: Tensor) -> Tensor:
        n, length, size = x.shape
        return self.mlp(self.ln_q(x).view(n, length // 4, 4 * size))


class Vision(nn.Module):
    def __init__(self, config: dict) -> None:
        super().__init__()
        self.config = config
        size, heads = config["hidden_size"], config["num_heads"]
        self.head_dim = size // heads
        self.patch_embed = PatchEmbed(size, config["patch_size"])
        self.blocks = nn.ModuleList(
            VisionBlock(size, config["intermediate_size"], heads) for _ in range(config["depth"])
        )
        self.merger = Merger(size, config["out_hidden_size"])

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """``pixels`` uint8 [N, H, W, 3], sides multiples of 28 → merged tokens [N, T, out] in
        raster order, and the patches before merging [N, 4T, hidden]."""
        rows, columns = pixels.shape[1] // recipe.GRID, pixels.shape[2] // recipe.GRID
        x = self.patch_embed(self._patches(pixels, rows, columns))
        patches = self._layout(rows, columns, x)
        for i, block in enumerate(self.blocks):
            x = block(x, patches, i in self.config["fullatt_block_indexes"])
        return self.merger(x), x

    def _patches(self, pixels: Tensor, rows: int, columns: int) -> Tensor:
        mean = torch.tensor(_MEAN, device=pixels.device)
        std = torch.tensor(_STD, device=pixels.device)
        x = (pixels.float() / 255 - mean) / std
        patch = self.config["patch_size"]
        x = x.view(-1, rows, 2, patch, columns, 2, patch, 3)
        #             0  1     2  3      4        5  6      7
        x = x.permute(0, 1, 4, 2, 5, 7, 3, 6)
        return x.reshape(-1, rows * columns * 4, 3 * patch * patch)

    def _layout(self, rows: int, columns: int, like: Tensor) -> Patches:
        y, x = patch_places(rows, columns)
        quarter = self.head_dim // 4
        frequencies = 10_000.0 ** (-torch.arange(quarter) / quarter)
        angles = torch.cat((y[:, None] * frequencies, x[:, None] * frequencies), dim=1)
        angles = torch.cat((angles, angles), dim=1)
        edge = self.config["window_size"] // recipe.GRID
        layout = Patches(rows, columns, edge, angles.cos(), angles.sin(), angles)
        there = layout.windows(torch.ones(1, 1, rows * columns * 4, 1))[0, :, :, :, 0] > 0
        mask = hide(there[:, :, None, :], like.dtype)
        cos, sin, mask = (t.to(like.device, like.dtype) for t in (layout.cos, layout.sin, mask))
        return replace(layout, cos=cos, sin=sin, mask=mask)


def patch_places(rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Row and column of every patch in the order of the encoder: 2x2 patches of a token together.

    Both int64 [4 * rows * columns].
    """
    y = torch.arange(rows * 2).view(rows, 1, 2, 1).expand(rows, columns, 2, 2)
    x = torch.arange(columns * 2).view(1, columns, 1, 2).expand(rows, columns, 2, 2)
    return y.reshape(-1), x.reshape(-1)


# ------------------------------------------------------------------------------ language model


class SelfAttention(nn.Module):
    def __init__(self, config: dict) -> None:
        super().__init__()
        size, d = config["hidden_size"], config["head_dim"]
        self.heads, self.kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        self.d = d
        self.q_proj = nn.Linear(size, self.heads * d)
        self.k_proj = nn.Linear(size, self.kv_heads * d)
        self.v_proj = nn.Linear(size, self.kv_heads * d)
        self.o_proj = nn.Linear(self.heads * d, size, bias=False)

    def forward(
        self, x: Tensor, turn: tuple[Tensor, Tensor], before: Sequence[Tensor], mask: Tensor
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """``before`` are keys and values [1, kv_heads, P, d] of a shared prefix, or empty."""
        b, length, _ = x.shape
        q = rotate(self.q_proj(x).view(b, length, self.heads, self.d).transpose(1, 2), *turn)
        k = rotate(self.k_proj(x).view(b, length, self.kv_heads, self.d).transpose(1, 2), *turn)
        v = self.v_proj(x).view(b, length, self.kv_heads, self.d).transpose(1, 2)
        own = (k, v)
        if before:
            k = torch.cat((before[0].expand(b, -1, -1, -1), k), dim=2)
            v = torch.cat((before[1].expand(b, -1, -1, -1), v), dim=2)
        share = self.heads // self.kv_heads
        out = attend(q, k.repeat_interleave(share, 1), v.repeat_interleave(share, 1), mask)
        return self.o_proj(out.transpose(1, 2).reshape(b, length, -1)), own


class Layer(nn.Module):
    def __init__(self, config: dict) -> None:
        super().__init__()
        size = config["hidden_size"]
        self.self_attn = SelfAttention(config)
        self.mlp = SwiGLU(size, config["intermediate_size"], bias=False)
        self.input_layernorm = RMSNorm(size)
        self.post_attention_layernorm = RMSNorm(size)

    def forward(
        self, x: Tensor, turn: tuple[Tensor, Tensor], before: Sequence[Tensor], mask: Tensor
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        attended, own = self.self_attn(self.input_layernorm(x), turn, before, mask)
        x = x + attended
        return x + self.mlp(self.post_attention_layernorm(x)), own


class Language(nn.Module):
    def __init__(self, config: dict, vocabulary: int) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(vocabulary, config["hidden_size"])
        self.layers = nn.ModuleList(Layer(config) for _ in range(config["num_hidden_layers"]))
        self.norm = RMSNorm(config["hidden_size"])

    def turns(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """M-RoPE cos and sin [B, 1, L, d] of ``positions`` [3, B, L] (t, h, w)."""
        rope = self.config["rope_parameters"]
        half = self.config["head_dim"] // 2
        steps = torch.arange(half, device=positions.device)
        angles = positions[..., None].float() * rope["rope_theta"] ** (-steps / half)
        parts = angles.split(rope["mrope_section"], dim=-1)
        angles = torch.cat([part[axis] for axis, part in enumerate(parts)], dim=-1)
        angles = torch.cat((angles, angles), dim=-1)[:, None]
        return angles.cos().to(dtype), angles.sin().to(dtype)


# ------------------------------------------------------------------------------ the whole


@dataclass(frozen=True)
class Sequences:
    """A batch as the language model sees it."""

    prefix: Tensor
    """int64 [P]: the ids every sequence begins with; at positions 0 … P - 1."""
    ids: Tensor
    """int64 [B, L], the image token where an embedding of a picture goes."""
    positions: Tensor
    """int64 [3, B, L]: t, h, w."""
    visible: Tensor
    """bool [B, L, L]: which key a query sees. The prefix is seen by all."""


@dataclass(frozen=True)
class Outputs:
    hidden: Tensor
    """[B, L, C] behind the last norm; times the embedding matrix it gives the logits."""
    patches: Tensor
    """[N, 4T, vision hidden]: the vision encoder's last block."""
    tokens: Tensor
    """[N, T, C]: the pictures' tokens as they enter the language model."""
    middle: Tensor
    """[N, T, C]: the same tokens behind layer ``middle_layer``."""


class Inner(nn.Module):
    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.visual = Vision(recipe.VISION)
        self.language_model = Language(recipe.TEXT, vocabulary)


class NanoNetwork(nn.Module):
    """``Qwen2_5_VLForConditionalGeneration`` with tied embeddings."""

    def __init__(self, vocabulary: int, image_token: int, middle_layer: int = 3) -> None:
        super().__init__()
        self.image_token = image_token
        self.middle_layer = middle_layer
        self.model = Inner(vocabulary)

    def forward(self, pixels: Tensor, batch: Sequences) -> Outputs:
        """``pixels`` uint8 [N, H, W, 3]: the pictures in the order of their tokens in ``ids``."""
        tokens, patches = self.model.visual(pixels)
        language = self.model.language_model
        x = language.embed_tokens(batch.ids).to(tokens.dtype)
        places = batch.ids == self.image_token
        x = x.masked_scatter(places[..., None], tokens.to(x.dtype))

        length = len(batch.prefix)
        shared = language.embed_tokens(batch.prefix)[None].to(x.dtype)
        ahead = torch.arange(length, device=x.device).expand(3, 1, -1)
        shared_turn = language.turns(ahead, x.dtype)
        turn = language.turns(batch.positions, x.dtype)
        mask = hide(F.pad(batch.visible, (length, 0), value=True)[:, None], x.dtype)
        shared_mask = hide(torch.ones(length, length, device=x.device).tril().bool(), x.dtype)
        middle = x
        for i, layer in enumerate(language.layers):
            shared, before = layer(shared, shared_turn, (), shared_mask)
            x, _ = layer(x, turn, before, mask)
            if i + 1 == self.middle_layer:
                middle = x
        n, t, c = tokens.shape
        return Outputs(language.norm(x), patches, tokens, middle[places].view(n, t, c))

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., C] → [..., vocabulary]."""
        return F.linear(hidden, self.model.language_model.embed_tokens.weight.to(hidden.dtype))
