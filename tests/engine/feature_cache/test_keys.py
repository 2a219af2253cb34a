import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentserve.engine.feature_cache import checkpoint_revision, model_key


def test_facts_of_a_model_do_not_run_into_each_other():
    assert model_key("a", "bc") != model_key("ab", "c")
    assert model_key("a", "b") == model_key("a", "b")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text('{"hidden_size": 64}')
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    os.utime(tmp_path / "model.safetensors", (100, 100))
    return tmp_path


def test_weights_trained_anew_in_the_same_place(checkpoint: Path):
    before = checkpoint_revision(checkpoint)
    assert checkpoint_revision(checkpoint) == before
    (checkpoint / "model.safetensors").write_bytes(b"WEIGHTS")
    assert checkpoint_revision(checkpoint) != before


def test_another_configuration(checkpoint: Path):
    before = checkpoint_revision(checkpoint)
    os.utime(checkpoint / "config.json", (200, 200))  # its text is what counts
    assert checkpoint_revision(checkpoint) == before
    (checkpoint / "config.json").write_text('{"hidden_size": 65}')
    assert checkpoint_revision(checkpoint) != before


def test_importing_the_package_loads_no_torch():
    code = (
        "import sys, agentserve.engine.feature_cache\n"
        "print(sorted({'torch', 'numpy', 'safetensors', 'sglang'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
