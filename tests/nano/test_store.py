"""The bundled weights: there, small, and found without loading torch."""

import subprocess
import sys

import pytest

from agentserve.core.errors import EngineMismatch
from agentserve.nano import store


def test_the_weights_are_bundled_and_small():
    sizes = {path.name: path.stat().st_size for path in store.nano_path().iterdir()}
    assert 10e6 < sizes["model.safetensors"] <= 30e6
    assert sum(sizes.values()) <= 31e6
    assert {"config.json", "tokenizer.json", "README.md"} <= set(sizes)


def test_an_installation_without_weights_says_so(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(store, "WEIGHTS", tmp_path)
    with pytest.raises(EngineMismatch, match="came without the nano model's weights"):
        store.nano_path()


def test_asking_for_the_path_loads_no_torch():
    code = (
        "import sys, agentserve.nano.store\n"
        "print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
