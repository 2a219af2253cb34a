"""The import contract holds, is really checked, and the base install stays free of torch."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LINT_IMPORTS = str(Path(sys.executable).with_name("lint-imports"))


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LINT_IMPORTS, "--no-cache"],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_contract_holds() -> None:
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "0 broken" in result.stdout


@pytest.mark.parametrize(
    ("module", "statement"),
    [
        ("router/pins/pinning.py", "import agentserve.engine.plugin"),
        ("core/screens.py", "import agentserve.client"),
        ("client/router.py", "import torch"),
        ("replay/modes/model.py", "import agentserve.browser.runner"),
        ("vision/policies.py", "import sglang"),
        ("engine/plugin.py", "import sglang"),
        ("replay/modes/model.py", "import playwright"),
    ],
)
def test_a_forbidden_import_breaks_it(tmp_path: Path, module: str, statement: str) -> None:
    shutil.copytree(
        ROOT / "agentserve", tmp_path / "agentserve", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    target = tmp_path / "agentserve" / module
    target.write_text(target.read_text().replace("\nfrom ", f"\n{statement}\nfrom ", 1))
    assert statement in target.read_text()
    result = lint_imports(tmp_path)
    assert result.returncode != 0
    assert "1 broken" in result.stdout or "2 broken" in result.stdout, result.stdout


@pytest.mark.parametrize(
    "module", ["agentserve.router.app", "agentserve.client", "agentserve.replay.modes.model"]
)
def test_the_base_install_loads_neither_torch_nor_sglang(module: str) -> None:
    code = (
        f"import sys, {module}; "
        "print([m for m in ('torch', 'sglang', 'transformers') if m in sys.modules])"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_every_module_file_is_small() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in [*ROOT.glob("agentserve/**/*.py"), *ROOT.glob("programs/*.py")]
        if (lines := len(path.read_text().splitlines())) > (100 if "programs" in str(path) else 400)
    }
    assert long == {}


def test_the_base_dependencies_name_no_engine_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    base = " ".join(project["dependencies"])
    assert not any(name in base for name in ("torch", "sglang", "transformers", "playwright"))
