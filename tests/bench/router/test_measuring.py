"""Small runs of the router's benchmarks against our router alone; its workers are scripted."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentserve.bench.origin import Origin
from agentserve.bench.router import passing, turns
from agentserve.bench.router.probes import PROBES, ProbesReport, measure_probes
from agentserve.bench.router.processes import Group, Server, free_port, listens, module
from agentserve.bench.router.report import RouterReport, measure_router
from agentserve.bench.router.targets import OURS, rival, together
from agentserve.cli.bench_routers import targets_of
from agentserve.core.errors import InvalidRequest

ORIGIN = Origin(command="pytest", commit=None)


async def test_our_router_takes_the_probes(tmp_path: Path) -> None:
    told: list[int] = []
    report = await measure_probes([OURS], tmp_path, ORIGIN, lambda: told.append(1))
    assert ProbesReport.model_validate_json(report.model_dump_json()) == report
    (ours,) = report.routers
    assert len(told) == PROBES + 1
    assert (ours.refusals.statuses, ours.refusals.answered) == ({"400": 40}, 6)
    assert (ours.bounced.sessions, ours.bounced.went_on, ours.bounced.back) == (8, 8, 0)
    assert (ours.restarted.names, ours.restarted.kept) == (60, 60)
    broken = ours.broken
    assert (broken.error, broken.done, broken.broke_off) == ("worker_lost", False, False)
    assert broken.events >= 1 and broken.next_ms is not None and broken.repeated
    assert ours.turn is not None
    assert (ours.turn.answered, ours.turn.replayed, ours.turn.next_ok) == (True, True, True)
    assert ours.turn.attempts == 2
    assert ours.kept.identical
    assert not (ours.kept.lost_fields or ours.kept.added_fields or ours.kept.lost_headers)
    assert (ours.pictures.policy, ours.pictures.same_text) == ("by session", 0)


async def test_what_the_router_costs_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passing, "SCREENSHOTS", (0, 1))
    monkeypatch.setattr(passing, "CONCURRENCIES", (2,))
    monkeypatch.setattr(turns, "TURNS", 2)
    passed: list[int] = []
    turned: list[int] = []
    report = await measure_router(
        *([OURS, together(2)], {"smg": "why"}, 1, 0.1, tmp_path, ORIGIN),
        *(lambda: passed.append(1), lambda: turned.append(1)),
    )
    assert RouterReport.model_validate_json(report.model_dump_json()) == report
    assert [(one.screenshots, one.concurrency) for one in report.passing] == [(0, 2), (1, 2)]
    assert (list(report.versions), report.left_out) == (
        ["agentserve", "agentserve x 2"],
        {"smg": "why"},
    )
    assert len(passed) == 2 * 3 * 2  # loads, targets, and a round to get warm
    for load in report.passing:
        direct, *routers = load.figures
        assert [one.target for one in load.figures] == ["direct", "agentserve", "agentserve x 2"]
        assert direct.added_p50 == 0 and direct.per_s_ratio == 1
        for ours in routers:
            assert ours.p50 == pytest.approx(direct.p50 + ours.added_p50)
            assert 0 < ours.p50 <= ours.p99 and ours.requests > 0
            assert ours.cpu is None or ours.cpu > 0
    kinds = [(one.policy, one.way) for one in report.turns]
    assert kinds == [(p, w) for p in ("mosaic", "full") for w in ("multipart", "base64", "blob")]
    assert len(turned) == 2 * len(kinds)
    for one in report.turns:
        assert one.turns == 2
        assert 0 < one.own < one.total
        assert (one.upload is None) == (one.way != "blob")


def test_another_release_of_a_rival_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="there is no") as missing:
        rival("smg", tmp_path / "smg")
    assert "pip install smg==1.13.0" in missing.value.hint
    (tmp_path / "python").write_text("#!/bin/sh\necho 9.9\n")
    (tmp_path / "python").chmod(0o755)
    (tmp_path / "smg").touch(mode=0o755)
    with pytest.raises(InvalidRequest, match=r"is smg 9\.9"):
        rival("smg", tmp_path / "smg")


async def test_a_groups_cpu_time_is_that_of_all(tmp_path: Path) -> None:
    servers = []
    for number in range(3):
        port = free_port()
        sink = module("agentserve.bench.router.sink", str(port))
        servers.append(Server(sink, port, tmp_path / f"{number}"))
    needed, *members = servers
    async with Group(members[0].port, needed, members) as group:
        for server in servers:
            await server.until(lambda server=server: listens(server.port))
        assert group.url == members[0].url
        before = [server.cpu_s() for server in servers]
        if None in before:
            pytest.skip("this system does not tell what its processes take")
        together, after = group.cpu_s(), [server.cpu_s() for server in servers]
        assert 0 < sum(before) <= together <= sum(after)
    assert not any([await listens(server.port) for server in servers])


def test_routers_behind_one_port_need_a_redis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    chosen, left_out = targets_of(None, None, 3)
    assert chosen == [OURS]
    assert left_out["agentserve x 3"] == "there is no redis-server on PATH"
    assert set(left_out) == {"agentserve x 3", "sglang-router", "smg"}
    assert "without agentserve x 3: there is no redis-server" in capsys.readouterr().err
    assert set(targets_of(None, None).left_out) == {"sglang-router", "smg"}
