"""``agentserve cost``: what each way to leave out visual tokens would save, on paper."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentserve.cli.bench_pruning import Ratios, SettingsOption, ratios_of
from agentserve.cli.bench_run import JsonOption
from agentserve.cli.console import out
from agentserve.core.errors import InvalidRequest

if TYPE_CHECKING:
    from agentserve.planner.cost import Prompt
    from agentserve.planner.forecast import Forecast


def cost(
    model: Annotated[
        str,
        typer.Argument(help="A checkpoint's folder or its config.json; `nano` is the bundled one."),
    ] = "nano",
    visual: Annotated[int, typer.Option(min=1, help="New visual tokens of the prompt.")] = 960,
    items: Annotated[int, typer.Option(min=1, help="Of how many regions they are.")] = 1,
    text: Annotated[int, typer.Option(min=1, help="New tokens of text.")] = 128,
    voices: Annotated[
        int, typer.Option(min=1, help="How many of these are behind the last region.")
    ] = 32,
    prefix: Annotated[int, typer.Option(min=0, help="Tokens found in the cache.")] = 0,
    settings: SettingsOption = None,
    ratios: Ratios = "0.25,0.5,0.75",
    as_json: JsonOption = False,
) -> None:
    """Foretell prefill FLOPs and KV of one prompt under each way to prune or evict.

    Needs the model's config.json alone: no worker, no weights. What it foretells of the layers is
    what `agentserve worker --count-flops` counts; `agentserve bench pruning` measures.
    """
    from agentserve.bench.settings import settings_of
    from agentserve.core.families import family_of
    from agentserve.planner.cost import Prompt, model_shape
    from agentserve.planner.forecast import Forecast, forecasts

    config = _read_config(model)
    family = family_of((config.get("architectures") or ["none"])[0])
    prompt = Prompt(visual=visual, text=text, prefix=prefix, items=items, voices=voices)
    chosen = settings_of(settings, ratios_of(ratios), family)
    named = [(setting.name, setting.compression) for setting in chosen]
    rows = forecasts(model_shape(config), prompt, named)
    if as_json:
        from pydantic import TypeAdapter

        out.print_json(TypeAdapter(list[Forecast]).dump_json(rows).decode())
    else:
        _tell(model, prompt, rows)


def _read_config(model: str) -> dict[str, Any]:
    """Raises InvalidRequest for what is no config.json and has none."""
    if model == "nano":
        from agentserve.nano.store import nano_path

        path = nano_path()
    else:
        path = Path(model)
    path = path / "config.json" if path.is_dir() else path
    try:
        config = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InvalidRequest(
            f"{path} is no model's config.json: {error}",
            hint="give a checkpoint's folder or its config.json; nothing is downloaded",
        ) from None
    if not isinstance(config, dict):
        raise InvalidRequest(f"{path} is no model's config.json: it is no JSON object")
    return config


def _tell(model: str, prompt: Prompt, rows: list[Forecast]) -> None:
    from rich.table import Table

    table = Table(
        title=f"{model}: {prompt.visual} visual tokens of {prompt.items} regions, {prompt.text} of"
        f" text, behind {prompt.prefix} from the cache"
    )
    table.add_column("setting")
    for name in (
        "prefill\nGFLOPs", "ratio", "visual tokens\nprefilled", "kept after\nthe answer",
        "KV MiB\nprefilled", "KV MiB\nkept", "ratio",
    ):  # fmt: skip
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            row.name,
            f"{row.prefill_flops / 1e9:,.1f}",
            f"{row.flops_ratio:.2f}",
            f"{row.visual_prefilled:,}",
            f"{row.visual_kept:,}",
            f"{row.kv_bytes / 2**20:,.1f}",
            f"{row.kv_bytes_kept / 2**20:,.1f}",
            f"{row.kv_kept_ratio:.2f}",
        )
    out.print(table)
