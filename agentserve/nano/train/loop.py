"""The training loop: deterministic given a seed and the shards, resumable, on one device or as
several single-threaded processes on a CPU (which waste nothing on waiting for each other's
threads).
"""

from __future__ import annotations

import json
import os
import queue
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from agentserve.nano.collect import Shards
from agentserve.nano.network import NanoNetwork, Sequences
from agentserve.nano.train.batches import Batch, BatchMaker
from agentserve.nano.train.curves import LOG
from agentserve.nano.train.objective import Heads, clicks_right, losses
from agentserve.nano.train.prompts import Speller

WATCH_EVERY = 200
WATCH_BATCHES = 4
REFRESH_EVERY = 50


@dataclass(frozen=True)
class TrainConfig:
    data: Path
    out: Path
    steps: int
    """Of the whole training, those of earlier runs that are resumed included."""
    batch: int = 16
    """Pictures a step and process."""
    lr: float = 2e-3
    warmup: int = 100
    decay: float = 0.3
    """Share of the steps at the end in which the learning rate falls to zero."""
    episodes: float = 0.25
    """Share of the steps on whole episodes rather than single screens."""
    seed: int = 0
    compile: bool = True
    checkpoint_every_s: float = 120.0


def learning_rate(config: TrainConfig, step: int) -> float:
    """Warm-up, a constant part, a linear fall to zero: the constant part can be prolonged."""
    falling = max(1, int(config.steps * config.decay))
    return config.lr * min(
        1.0, (step + 1) / config.warmup, max(0.0, (config.steps - step) / falling)
    )


def train(config: TrainConfig) -> None:
    """Train up to ``config.steps``; a checkpoint in ``config.out`` is continued.

    Measurements of every few steps are appended to ``config.out``'s log. Raises FileNotFoundError
    when there is no data.
    """
    rank, world = _rank()
    torch.manual_seed(config.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    speller = Speller()
    network = NanoNetwork(speller.size, speller.image)
    initialise(network, config.seed)
    heads = Heads()
    both = nn.ModuleList([network, heads]).to(device)
    optimizers = _optimizers(network, heads, config)
    config.out.mkdir(parents=True, exist_ok=True)
    first = _resume(config.out, both, optimizers)
    if config.compile:
        language = network.model.language_model
        for block in [*network.model.visual.blocks, *language.layers]:
            block.compile()

    shards = Shards(config.data)
    maker = BatchMaker(shards, speller, config.seed * 1000 + rank)
    maker.refresh()
    started = saved = time.monotonic()
    recent: list[dict[str, float]] = []
    for step, batch in _batches(maker, config, first):
        for group in [g for o in optimizers for g in o.param_groups]:
            group["lr"] = learning_rate(config, step)
        batch = _to(batch, device)
        with torch.autocast(device.type, torch.bfloat16):
            out = network(batch.pixels, batch.sequences)
            found = losses(network, heads, batch, out)
        found.total.backward()
        _share_gradients(both, world)
        norm = float(nn.utils.clip_grad_norm_(both.parameters(), 1.0))
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        recent.append({**found.parts, "norm": norm})
        if rank == 0 and (step + 1) % 10 == 0:
            entry: dict[str, Any] = {
                "step": step + 1,
                "time": round(time.time()),
                "lr": learning_rate(config, step),
            }
            entry |= {k: sum(r[k] for r in recent) / len(recent) for k in recent[0]}
            entry["pictures_per_s"] = (
                (step + 1 - first) * config.batch * world / (time.monotonic() - started)
            )
            recent.clear()
            if (step + 1) % WATCH_EVERY == 0:
                entry["held_out"] = watch(network, maker, config, device)
            _append(config.out / LOG, entry)
        due = time.monotonic() - saved > config.checkpoint_every_s
        if rank == 0 and (due or step + 1 == config.steps):
            saved = time.monotonic()
            save(config, both, optimizers, step + 1)


def _append(path: Path, entry: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as log:
        log.write(json.dumps(entry) + "\n")


def initialise(network: NanoNetwork, seed: int) -> None:
    """Small normal weights; what is added to the residual stream starts smaller still."""
    generator = torch.Generator().manual_seed(seed)
    depth = len(network.model.language_model.layers)
    for name, parameter in network.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
        elif parameter.dim() > 1:
            deviation = 0.02 if "embed_tokens" in name else (parameter[0].numel()) ** -0.5
            if name.endswith(("o_proj.weight", "down_proj.weight", "attn.proj.weight")):
                deviation /= (2 * depth) ** 0.5
            nn.init.normal_(parameter, std=deviation, generator=generator)


@torch.no_grad()
def watch(
    network: NanoNetwork, maker: BatchMaker, config: TrainConfig, device: torch.device
) -> dict[str, Any]:
    """Clicks on held-out screens: per task [hits, all]. The same screens every time."""
    tally: dict[str, list[int]] = {}
    torch.compiler.set_stance("force_eager")  # a few batches are not worth compiling for
    for number in range(WATCH_BATCHES):
        makers = [maker.single, maker.episodes][: 1 + (maker.has_episodes and number % 3 == 0)]
        for make in makers:
            batch = _to(make(-1 - number, 2 * config.batch, held_out=True), device)
            with torch.autocast(device.type, torch.bfloat16):
                out = network(batch.pixels, batch.sequences)
            for task, right in clicks_right(network, batch, out):
                counts = tally.setdefault(task, [0, 0])
                counts[0] += right
                counts[1] += 1
    torch.compiler.set_stance("default")
    hits, clicks = (sum(c[i] for c in tally.values()) for i in (0, 1))
    return {"clicks": [hits, clicks], "tasks": dict(sorted(tally.items()))}


def _rank() -> tuple[int, int]:
    if "RANK" not in os.environ:
        return 0, 1
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    return dist.get_rank(), dist.get_world_size()


def _share_gradients(both: nn.Module, world: int) -> None:
    if world == 1:
        return
    gradients = [p.grad for p in both.parameters() if p.grad is not None]
    flat = torch.cat([g.flatten() for g in gradients])
    dist.all_reduce(flat)
    flat /= world
    torch._foreach_copy_(
        gradients,
        [
            p.view_as(g)
            for p, g in zip(flat.split([g.numel() for g in gradients]), gradients, strict=True)
        ],
    )


def _optimizers(network: NanoNetwork, heads: Heads, config: TrainConfig) -> list[Any]:
    """Muon (K. Jordan, 2024; its step sized like AdamW's) for matrices, AdamW for the rest."""
    matrices, others = [], [*heads.parameters()]
    for name, parameter in network.named_parameters():
        is_matrix = parameter.dim() == 2 and "embed_tokens" not in name
        (matrices if is_matrix else others).append(parameter)
    return [
        torch.optim.Muon(
            matrices, lr=config.lr, weight_decay=0.02, ns_steps=4, adjust_lr_fn="match_rms_adamw"
        ),
        torch.optim.AdamW(others, lr=config.lr, weight_decay=0.0, betas=(0.9, 0.98)),
    ]


def _batches(maker: BatchMaker, config: TrainConfig, first: int) -> Iterator[tuple[int, Batch]]:
    """(step, batch), made one ahead in a thread: decoding pictures leaves the interpreter free."""
    ready: queue.Queue[Any] = queue.Queue(maxsize=2)

    def make() -> None:
        try:
            for step in range(first, config.steps):
                if step % REFRESH_EVERY == 0:
                    maker.refresh()
                share = config.episodes
                whole = maker.has_episodes and int((step + 1) * share) > int(step * share)
                draw = maker.episodes if whole else maker.single
                ready.put((step, draw(step, config.batch)))
            ready.put(None)
        except BaseException as error:  # handed to the training thread, which raises it
            ready.put(error)

    threading.Thread(target=make, daemon=True).start()
    while (item := ready.get()) is not None:
        if isinstance(item, BaseException):
            raise item
        yield item


def _to(batch: Batch, device: torch.device) -> Batch:
    if device.type == "cpu":
        return batch

    def move(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.to(device, non_blocking=True)
        if isinstance(value, Sequences):
            return Sequences(**{k: move(v) for k, v in vars(value).items()})
        return value

    return Batch(**{k: move(v) for k, v in vars(batch).items()})


def save(config: TrainConfig, both: nn.Module, optimizers: list[Any], step: int) -> None:
    """Replace the checkpoint at once."""
    state = {
        "step": step,
        "model": both.state_dict(),
        "optimizers": [o.state_dict() for o in optimizers],
        "config": json.loads(json.dumps(asdict(config), default=str)),
    }
    part = config.out / "checkpoint.pt.part"
    torch.save(state, part)
    os.replace(part, config.out / "checkpoint.pt")


def _resume(out: Path, both: nn.Module, optimizers: list[Any]) -> int:
    path = out / "checkpoint.pt"
    if not path.exists():
        return 0
    state = torch.load(path, map_location="cpu", weights_only=True)
    both.load_state_dict(state["model"])
    for optimizer, kept in zip(optimizers, state["optimizers"], strict=True):
        optimizer.load_state_dict(kept)
    return state["step"]
