"""The README's examples, run as they stand there; only the router's address is replaced."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from e2e.helpers import screen

from agentserve.cli.stack import Stack
from agentserve.core.screens import Size
from agentserve.lang.registry import load_registry

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()
SHELL = re.findall(r"^```bash\n(.*?)^```", README, re.M | re.S)
PYTHON = re.findall(r"^```python\n(.*?)^```", README, re.M | re.S)


@pytest.fixture
def shell(stack: Stack, tmp_path: Path):
    """Runs a README example in an empty folder; fails when a command of it fails."""
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv/bin").symlink_to(Path(sys.executable).parent)
    (tmp_path / "screen.png").write_bytes(screen(Size(width=224, height=280)))

    def run(script: str, *, allowed: tuple[int, ...] = (0,)) -> str:
        done = subprocess.run(
            [
                "bash",
                "-euo",
                "pipefail",
                "-c",
                script.replace("http://127.0.0.1:8300", stack.router),
            ],
            cwd=tmp_path,
            env=os.environ | {"AGENTSERVE_ROUTER": stack.router},
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode in allowed, done.stdout + done.stderr
        return done.stdout

    run.folder = tmp_path
    return run


def test_a_run_and_its_replay(shell) -> None:
    (run,) = [example for example in SHELL if "agentserve run" in example]
    (replay,) = [example for example in SHELL if "replay recordings/RECORDING" in example]
    shell(run, allowed=(0, 3))  # 3: the random model does not achieve the task
    (recording,) = (shell.folder / "recordings").iterdir()
    assert "steps the same, 0 different" in shell(replay.replace("RECORDING", recording.name))


def test_curl_alone_holds_a_whole_session(shell) -> None:
    (example,) = [example for example in SHELL if "curl" in example and "SESSION" in example]
    output = shell(example)
    assert '"status":"idle"' in output
    assert '"model_action":' in output
    assert '"next_cursor":' in output
    assert "event: turn.completed" in output
    assert '"status":"released"' in output


def test_an_openai_chat_with_a_picture(shell) -> None:
    (example,) = [example for example in SHELL if "chat/completions" in example]
    assert '"finish_reason":' in shell(example)


def test_the_python_client(stack: Stack, shell) -> None:
    (example,) = [example for example in PYTHON if "RouterClient" in example]
    script = example.replace("http://127.0.0.1:8300", stack.router)
    (shell.folder / "example.py").write_text(script)
    assert " of " in shell(f"{sys.executable} example.py")


def test_the_stock_program(shell, stack: Stack) -> None:
    (example,) = [example for example in PYTHON if "RouterEndpoint" in example]
    script = example.replace("http://127.0.0.1:8300", stack.router)
    (shell.folder / "example.py").write_text(script)
    shell(f"{sys.executable} example.py")


def test_the_program_example_is_a_program(tmp_path: Path) -> None:
    (example,) = [example for example in PYTHON if "def begin" in example]
    (tmp_path / "example.py").write_text(example)
    listed = load_registry([tmp_path]).listing()
    assert listed.broken == {}
    assert [program.name for program in listed.programs] == ["example"]
