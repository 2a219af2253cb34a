"""The pool of program hosts by itself."""

from __future__ import annotations

import os
from dataclasses import replace

import httpx
import pytest

from agentserve.core.config import LogConfig, RouterConfig
from agentserve.core.errors import HostLost, UnknownProgram
from agentserve.router.hosts import HostPool, HostSpec, host_command_line, program_host
from agentserve.router.metrics import Metrics
from agentserve.testing.host import scripted_host

from .rig import eventually, new_session, picture, running_rig


def test_the_command_line_is_the_contracts(tmp_path):
    spec = HostSpec(tmp_path / "s", tmp_path / "b", 4, (tmp_path / "p1", tmp_path / "p2.py"))
    assert program_host(spec)[1:] == [
        "-m", "agentserve.lang.host", "--socket", str(tmp_path / "s"),
        "--blobs", str(tmp_path / "b"), "--threads", "4",
        "--log-format", "text", "--log-level", "info",
        "--programs", str(tmp_path / "p1"), str(tmp_path / "p2.py"),
    ]  # fmt: skip
    for each in (spec, replace(spec, trace=True, log=LogConfig("json", "debug"))):
        assert scripted_host(each) == host_command_line("agentserve.testing.host", each)
    assert "--trace" in program_host(replace(spec, trace=True))


async def test_stopping_ends_the_processes_and_their_sockets(tmp_path):
    pool = HostPool(RouterConfig(hosts=2), tmp_path, scripted_host, Metrics())
    await pool.start()
    assert [program.name for program in (await pool.programs()).programs] == ["scripted"]

    async def both() -> bool:
        return pool.ready == 2

    await eventually(both)
    pids = pool.pids
    await pool.stop()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert (pool.ready, pool.pids) == (0, [])


async def test_a_host_that_cannot_start_is_tried_again_and_told(tmp_path, monkeypatch):
    monkeypatch.setattr("agentserve.router.hosts.START_TIMEOUT_S", 0.6)
    metrics = Metrics()
    pool = HostPool(RouterConfig(), tmp_path, lambda spec: ["/bin/false"], metrics)
    await pool.start()
    try:
        with pytest.raises(HostLost, match="no program host is running"):
            await pool.programs()
        assert b"agentserve_host_restarts_total 0.0" not in metrics.render({}, [])
    finally:
        await pool.stop()


async def test_a_host_that_only_lost_a_connection_stays(tmp_path):
    """Its keeper waits for the process to end: nobody would have started another one."""
    async with running_rig(tmp_path, host_command=dropping_host) as rig:
        pids = rig.services.hosts.pids
        session = await rig.client.create_session(new_session())
        result = await rig.client.turn(session.id, picture())
        assert (result.attempts, result.turn) == (2, 0)
        assert (rig.services.hosts.ready, rig.services.hosts.pids) == (1, pids)
        assert (await rig.client.turn(session.id, picture())).attempts == 1


async def test_a_host_that_does_not_answer_any_more_is_started_anew(tmp_path):
    async with running_rig(tmp_path) as rig:
        (pid,) = rig.services.hosts.pids
        (host,) = rig.services.hosts._hosts
        host.spec.socket.unlink()  # it lives, and cannot be reached
        assert host.client is not None
        await host.client.aclose()
        host.client = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=str(host.spec.socket)), base_url="http://host"
        )
        session = await rig.client.create_session(new_session())
        result = await rig.client.turn(session.id, picture())
        assert result.attempts == 2
        assert rig.services.hosts.pids != [pid]


def dropping_host(spec: HostSpec) -> list[str]:
    return host_command_line("tests.router.dropping_host", spec)


async def test_unknown_programs(tmp_path):
    pool = HostPool(RouterConfig(), tmp_path, scripted_host, Metrics())
    await pool.start()
    try:
        await pool.check_program("scripted")
        with pytest.raises(UnknownProgram, match="'other'"):
            await pool.check_program("other")
    finally:
        await pool.stop()
