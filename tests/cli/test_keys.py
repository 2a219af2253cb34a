"""``agentserve keys`` beside a router that runs on the same store."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from cli.test_commands import ERROR, USAGE, run
from router.rig import eventually, running_rig

from agentserve.client import RouterClient
from agentserve.core.errors import Unauthorized


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def told(*arguments: str) -> str:
    done = run("keys", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def while_it_runs(*arguments: str) -> str:
    """The same, beside a router in this process."""
    return await asyncio.to_thread(told, *arguments)


async def test_a_key_from_its_making_to_its_end(data: Path) -> None:
    async with running_rig(data, [], auth="keys", keys=None) as rig:
        text = (
            await while_it_runs("create", "--tenant", "one", "--name", "ci", "--data", str(data))
        ).strip()
        async with RouterClient(rig.server.url, api_key=text) as client:
            assert (await client.sessions()).sessions == []
            (listed,) = json.loads(await while_it_runs("list", "--data", str(data), "--json"))
            assert (listed["tenant"], listed["role"], listed["name"]) == ("one", "user", "ci")
            assert text not in json.dumps(listed) and "sha256" not in listed
            assert listed["id"] in text
            assert text not in await while_it_runs("list", "--data", str(data))
            await while_it_runs("revoke", listed["id"], "--data", str(data))

            async def refused() -> bool:
                try:
                    await client.sessions()
                except Unauthorized:
                    return True
                return False

            await eventually(refused)
    assert "no keys" in await while_it_runs("list", "--data", str(data))
    for path in data.rglob("*"):
        if path.is_file():
            assert text.encode() not in path.read_bytes(), "a key is kept nowhere"


def test_limits_and_an_end(data: Path) -> None:
    made = json.loads(
        told(
            "create", "--tenant", "a.b-c", "--role", "admin", "--days", "3", "--running", "2",
            "--queued", "5", "--data", str(data), "--json",
        )
    )  # fmt: skip
    assert made["limits"] == {"running": 2, "queued": 5}
    assert made["expires_at"] > made["created_at"]
    assert "2 running, 5 queued" in told("list", "--data", str(data))


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["create"], USAGE, "--tenant"),
        (["create", "--tenant", "a b"], ERROR, "no tenant's name"),
        (["create", "--tenant", "a/b"], ERROR, "no tenant's name"),
        (["create", "--tenant", "a", "--days", "0"], USAGE, "--days"),
        (["create", "--tenant", "a", "--store", "http://x"], ERROR, "redis://"),
        (["revoke", "nobody"], ERROR, "there is no key 'nobody'"),
    ],
)
def test_a_mistake_is_told(tmp_path: Path, arguments: list[str], code: int, words: str) -> None:
    done = run("keys", *arguments, cwd=tmp_path)
    assert done.returncode == code
    assert words in " ".join(done.stderr.split())
