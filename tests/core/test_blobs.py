from __future__ import annotations

from pathlib import Path

from agentserve.core.blobs import blob_path, sha256_of


def test_the_layout_of_the_blob_folder():
    sha = sha256_of(b"abc")
    assert sha == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert blob_path(Path("/b"), sha) == Path("/b/ba") / sha
