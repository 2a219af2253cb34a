"""Requests made from the OpenAPI document by schemathesis, good ones and broken ones: none makes
the router fail, and what it answers is what the document says."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from agentserve.core.tenants import Role, new_key

from .rig import new_session, picture, running_rig

HOOKS = Path(__file__).with_name("fuzz_hooks.py")
CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance",
    "response_headers_conformance", "response_schema_conformance", "unsupported_method",
)  # fmt: skip


async def fuzz(tmp_path: Path, examples: int, phases: str) -> None:
    """Raises AssertionError with schemathesis' own report."""
    keys = {"root": new_key("ops", Role.ADMIN)}
    async with running_rig(tmp_path, keys=keys, auth="keys") as rig:
        session = await rig.client.create_session(new_session())
        await rig.client.turn(session.id, picture(), epoch=0)
        known = {
            "session_id": session.id,
            "worker_id": session.pin.worker_id,
            "sha256": await rig.client.put_blob(picture()),
        }
        arguments = [
            "run", f"{rig.server.url}/openapi.json",
            *("--checks", ",".join(CHECKS)),
            *("--max-examples", str(examples)),
            *("--phases", phases),
            *("--seed", "1"),
            *("--request-timeout", "30"),
            *("--header", f"Authorization: Bearer {keys['root'][0]}"),
            *("--header", f"X-Api-Key: {keys['root'][0]}"),
            "--no-color",
        ]  # fmt: skip
        process = await asyncio.create_subprocess_exec(
            str(Path(sys.executable).with_name("schemathesis")),
            *arguments,
            cwd=tmp_path,
            env=os.environ
            | {
                "SCHEMATHESIS_HOOKS": str(HOOKS),
                "AGENTSERVE_FUZZ_KNOWN": " ".join(f"{k}={v}" for k, v in known.items()),
            },
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        out = (await process.communicate())[0].decode()
        assert process.returncode == 0, out[-20_000:]
        assert (await rig.client.ready()).status == "ok"
        print(out[out.index("SUMMARY") :])


@pytest.mark.timeout(600)
async def test_requests_made_from_the_document(tmp_path):
    await fuzz(tmp_path, 8, "examples,fuzzing")


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_many_requests_made_from_the_document(tmp_path):
    await fuzz(tmp_path, 300, "examples,coverage,fuzzing")
