from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from agentserve.nano.evaluate.provenance import commit, package_versions, weights_sha256


def test_weights_are_hashed_as_sha256sum_does(tmp_path: Path) -> None:
    assert weights_sha256(tmp_path) is None
    assert weights_sha256(tmp_path / "nowhere") is None
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "config.json").write_text("{}")
    assert weights_sha256(tmp_path) == hashlib.sha256(b"weights").hexdigest()
    (tmp_path / "a.safetensors").write_bytes(b"first ")
    assert weights_sha256(tmp_path) == hashlib.sha256(b"first weights").hexdigest()


def test_a_commit_tells_whether_files_were_changed(tmp_path: Path) -> None:
    assert commit(tmp_path) is None, "no repository"

    def git(*arguments: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        subprocess.run(["git", "-C", str(tmp_path), *who, *arguments], check=True)

    git("init", "--quiet")
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "--quiet", "-m", "one")
    (tmp_path / "untracked").touch()
    clean = commit(tmp_path)
    assert len(clean) == 40
    (tmp_path / "file").write_text("two")
    assert commit(tmp_path) == f"{clean}+"


def test_versions_name_what_takes_part() -> None:
    assert {"python", "agentserve", "miniwob", "playwright"} <= set(package_versions())
