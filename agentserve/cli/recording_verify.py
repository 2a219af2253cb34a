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
        list[Path],
        typer.Argument(help="Recordings, or folders that hold some.", metavar="PATH..."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check every entry of recordings: hashes, pictures, lines, and how they fit together. Of a
    folder all recordings below it, as replay finds them.

    Exit code 0: nothing is damaged (there may be warnings); 1: something is; 2: wrong usage.
    """
    from agentserve.replay.bundle.verify import verify as findings_of

    found = {str(each): findings_of(each) for path in recordings for each in _each(path)}
    if as_json:
        shown = {path: [f.model_dump() for f in findings] for path, findings in found.items()}
        out.print_json(json.dumps(shown))
    else:
        for path, findings in found.items():
            _tell(path, findings)
        if len(found) > 1:
            _tell_all(list(found.values()))
    if any(map(_is_damaged, found.values())):
        raise typer.Exit(1)


def _each(path: Path) -> list[Path]:
    """The recordings that it is or holds, as a replay finds them; where there is none, what is
    wrong is found of itself."""
    from agentserve.replay.bundle.below import recordings_below

    return list(recordings_below(path)) or [path]


def _is_damaged(findings: list[Finding]) -> bool:
    return any(finding.severity == "error" for finding in findings)


def _tell_all(found: list[list[Finding]]) -> None:
    damaged = sum(map(_is_damaged, found))
    warned = sum(bool(findings) and not _is_damaged(findings) for findings in found)
    counts = f"{len(found) - damaged} of {len(found)} recordings ok"
    if warned:
        counts += f" ({warned} with warnings)"
    if damaged:
        out.print(f"[bold red]✗ {counts}, {damaged} damaged[/]")
    else:
        out.print(f"[green]✓ {counts}[/]")


def _tell(path: str, findings: list[Finding]) -> None:
    mark = "[bold red]✗ damaged[/]" if _is_damaged(findings) else "[green]✓ ok[/]"
    out.print(f"{mark}  {escape(path)}")
    for finding in findings:
        colour = "red" if finding.severity == "error" else "yellow"
        out.print(f"  [{colour}]{finding.severity}[/]: {escape(finding.message)}")
        if finding.hint:
            out.print(f"    [dim]{escape(finding.hint)}[/]")
