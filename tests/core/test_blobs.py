from __future__ import annotations

from pathlib import Path

from agentserve.core.blobs import blob_path, sha256_of, tenant_folder


def test_the_layout_of_the_blob_folder():
    sha = sha256_of(b"abc")
    assert sha == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert tenant_folder("") == sha256_of(b"")[:32]
    assert blob_path(Path("/b"), "", sha) == Path("/b") / tenant_folder("") / "ba" / sha


def test_a_tenants_id_may_be_any_text():
    folders = {tenant_folder(name) for name in ("", "a", "A", "../a", "a/b", "\0", "\u20ac" * 999)}
    assert len(folders) == 7
    assert all(len(name) == 32 and name.isalnum() for name in folders)
