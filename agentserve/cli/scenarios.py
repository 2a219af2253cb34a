"""``agentserve scenarios``: what there is to run."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.table import Table

from agentserve.cli.console import out


def scenarios(
    as_json: Annotated[bool, typer.Option("--json", help="Print the names as JSON.")] = False,
) -> None:
    """List the bundled scenarios, for `run --scenario` and `demo --task`."""
    from agentserve.browser.scenarios import list_scenarios, load_scenario

    names = list_scenarios()
    if as_json:
        out.print_json(json.dumps(names))
        return
    table = Table("scenario", "viewport", "scale", "most turns", box=None)
    for name in names:
        scenario = load_scenario(name)
        table.add_row(name, str(scenario.viewport), f"{scenario.scale:g}", str(scenario.max_turns))
    out.print(table)
