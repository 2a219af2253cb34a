"""``agentserve nano compare``: evaluations side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agentserve.cli.console import out


def compare(
    base: Annotated[Path, typer.Argument(help="What `nano evaluate --out` wrote: the baseline.")],
    others: Annotated[list[Path], typer.Argument(help="Others, over the same tasks and seeds.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Compare evaluations with a baseline, episode by episode (same task, same seed)."""
    from pydantic import TypeAdapter
    from rich.table import Table

    from agentserve.nano.evaluate.compare import Comparison, compare, read_report

    rows = compare([(path.stem, read_report(path)) for path in (base, *others)])
    if as_json:
        out.print_json(TypeAdapter(list[Comparison]).dump_json(rows).decode())
        return
    table = Table(title="tokens as shares", title_justify="left")
    for name in (
        "setting", "episodes", "success", "95 %", "points", "lost", "won", "sent", "computed",
        "freed",
    ):  # fmt: skip
        table.add_column(name, justify="left" if name == "setting" else "right", no_wrap=True)
    for row in rows:
        table.add_row(
            row.name,
            str(row.episodes),
            f"{row.successes / row.episodes:.1%}",
            f"{row.low:.0%}-{row.high:.0%}",
            f"{row.points:+.1f}",
            str(row.lost),
            str(row.won),
            f"{row.sent_share:.0%}",
            f"{row.computed_share:.0%}",
            f"{row.freed_tokens:.0f}",
        )
    out.print(table)
