"""README, code and command line agree: what exists is documented, what is documented exists."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from metric_names import documented_metrics
from typer.main import get_command

from agentserve.cli import app
from agentserve.core.errors import BadRequest, ProgramFailed, Unavailable, by_code
from agentserve.core.sessions import Session, SessionCreate, TurnRequest, TurnResult, Usage
from agentserve.router.app import create_app

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def section(title: str) -> str:
    """The text under a heading, up to the next one of the same level."""
    match = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", README, re.M | re.S)
    assert match, f"README has no section {title!r}"
    return match[1]


def test_every_command_and_option_is_documented() -> None:
    text = section("Commands")
    for name, command in get_command(app).commands.items():
        assert f"### `agentserve {name}" in text, name
        for parameter in command.params:
            for option in parameter.opts:
                if option.startswith("--") and option != "--help":
                    assert f"`{option}`" in text, f"{name} {option}"


def test_every_route_is_documented(tmp_path: Path) -> None:
    from agentserve.core.config import RouterConfig

    text = section("REST API")
    api = create_app(RouterConfig(data=tmp_path)).openapi()
    for path, operations in api["paths"].items():
        for method in operations:
            assert f"`{method.upper()} {path}`" in text, f"{method.upper()} {path}"


def test_every_error_code_of_the_api_is_documented() -> None:
    text = section("REST API")
    for code, cls in by_code().items():
        if issubclass(cls, (BadRequest, Unavailable, ProgramFailed)) and cls not in (
            BadRequest,
            Unavailable,
        ):
            assert re.search(rf"\| `{code}` \| {cls.status} \|", text), code


@pytest.mark.parametrize("model", [SessionCreate, Session, TurnRequest, TurnResult, Usage])
def test_every_wire_field_is_documented(model: type) -> None:
    text = section("REST API")
    missing = [name for name in model.model_fields if f"`{name}`" not in text]
    assert missing == []


def test_every_dependency_is_explained() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    text = section("Dependencies")
    for requirement in (line for group in groups for line in group):
        name = re.match(r"[A-Za-z0-9_.-]+", requirement)[0]
        assert f"`{name}`" in text, name


def test_every_make_target_is_documented() -> None:
    targets = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.M)
    assert {"setup", "demo", "test", "lint", "gpu-check"} <= set(targets)
    for target in targets:
        assert f"`make {target}`" in README, target


def test_every_metric_is_documented() -> None:
    rows = re.findall(r"^\| `(agentserve_\w+)(?:\{([a-z_,]+)\})?` \| \S", README, re.M)
    listed = {name: tuple(filter(None, labels.split(","))) for name, labels in rows}
    assert listed == documented_metrics()


def test_relative_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target
