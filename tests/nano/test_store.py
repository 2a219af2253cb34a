"""Where the nano model lies, and that it is built once."""

import subprocess
import sys
from pathlib import Path

import pytest

from agentserve.core.errors import EngineMismatch
from agentserve.nano import store

ASK = "from agentserve.nano.store import nano_path; print(nano_path())"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTSERVE_CACHE", str(tmp_path))
    return tmp_path


def test_two_processes_at_once_build_it_once(cache: Path):
    asking = [
        subprocess.Popen([sys.executable, "-c", ASK], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    folders = {Path(process.communicate(timeout=200)[0].strip()) for process in asking}
    assert len(folders) == 1
    folder = folders.pop()
    assert folder.parent == cache
    assert (folder / "model.safetensors").stat().st_size > 10_000_000
    # one folder and the lock: nothing half-built, nothing built twice
    assert sorted(path.name for path in cache.iterdir()) == [folder.name, "nano.lock"]
    # the second call neither builds nor touches it
    before = (folder / "model.safetensors").stat().st_mtime_ns
    assert store.nano_path() == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == before


def test_a_failed_build_leaves_no_model(cache: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(store.sys, "executable", "/bin/false")
    with pytest.raises(EngineMismatch, match="could not be built"):
        store.nano_path()
    assert not list(cache.glob("nano-*"))


def test_asking_for_the_path_loads_no_torch():
    code = (
        "import sys, agentserve.nano.store\n"
        "print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
