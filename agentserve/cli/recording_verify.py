"""``agentserve recording verify``: whether recordings are whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from agentserve.cli.console import out

if TYPE_CHECKING:
    from agentserve.replay.bundle.verify import Finding


def verify(
    recordings: Annotated[
        list[Path], typer.Argument(help="Folders or zip files of recordings.", metavar="PATH...")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check every entry of recordings: hashes, pictures, lines, and how they fit together.

    Exit code 0: nothing is damaged (there may be warnings); 1: something is; 2: wrong usage.
    """
    from agentserve.replay.bundle.verify import verify as findings_of

    found = {str(path): findings_of(path) for path in recordings}
    if as_json:
        shown = {path: [f.model_dump() for f in findings] for path, findings in found.items()}
        out.print_json(json.dumps(shown))
    else:
        for path, findings in found.items():
            _tell(path, findings)
    if any(f.severity == "error" for findings in found.values() for f in findings):
        raise typer.Exit(1)


def _tell(path: str, findings: list[Finding]) -> None:
    damaged = any(finding.severity == "error" for finding in findings)
    mark = "[bold red]✗ damaged[/]" if damaged else "[green]✓ ok[/]"
    out.print(f"{mark}  {escape(path)}")
    for finding in findings:
        colour = "red" if finding.severity == "error" else "yellow"
        out.print(f"  [{colour}]{finding.severity}[/]: {escape(finding.message)}")
        if finding.hint:
            out.print(f"    [dim]{escape(finding.hint)}[/]")
