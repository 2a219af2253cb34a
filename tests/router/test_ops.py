from __future__ import annotations

import re

from metric_names import documented_metrics
from prometheus_client.metrics import MetricWrapperBase

from agentserve import __version__
from agentserve.router.metrics import Metrics

from .rig import Rig, new_session, picture


async def test_health_and_ready(rig: Rig):
    for path in ("/health", "/ready"):
        answer = await rig.http.get(path)
        assert answer.status_code == 200
        assert answer.json() == {
            "status": "ok",
            "version": __version__,
            "workers_ready": 2,
            "programs": ["scripted"],
        }


async def test_programs_tell_what_is_broken(rig: Rig):
    programs = await rig.client.programs()
    assert [program.name for program in programs.programs] == ["scripted"]
    assert programs.broken == {"broken.py": "it has no turn"}


async def test_metrics_count_turns_tokens_and_requests(rig: Rig):
    async def value(sample: str) -> float:
        text = (await rig.http.get("/metrics")).text
        found = re.search(rf"^{re.escape(sample)} (\S+)$", text, re.M)
        return float(found[1]) if found else 0.0

    names = [
        'agentserve_turns_total{outcome="completed"}',
        'agentserve_turns_total{outcome="replayed"}',
        'agentserve_turns_total{outcome="stale_epoch"}',
        "agentserve_prompt_tokens_total",
        "agentserve_turn_seconds_count",
        'agentserve_http_requests_total{method="POST",'
        'route="/v1/sessions/{session_id}/turns",status="200"}',
        'agentserve_sessions{status="idle"}',
    ]
    before = [await value(name) for name in names]
    session = await rig.client.create_session(new_session())
    result = await rig.client.turn(session.id, picture(), epoch=0)
    await rig.client.turn(session.id, picture(), epoch=0)
    await rig.http.post(
        f"/v1/sessions/{session.id}/turns", files={"screenshot": picture()}, data={"epoch": "9"}
    )
    grown = [await value(name) - old for name, old in zip(names, before, strict=True)]
    assert grown == [1, 1, 1, result.usage.prompt_tokens, 1, 2, 1]
    assert await value('agentserve_workers{state="ready"}') == 2


def test_every_metric_is_documented_with_its_labels():
    metrics = Metrics()
    parts = (*vars(metrics).values(), *vars(metrics._by_worker).values())
    made = [one for one in parts if isinstance(one, MetricWrapperBase)]
    names = {family.name: one._labelnames for one in made for family in one.describe()}
    counters = {
        family.name for one in made for family in one.describe() if family.type == "counter"
    }
    named = {f"{name}_total" if name in counters else name: of for name, of in names.items()}
    assert documented_metrics() == named
    assert set(re.findall(r"^# TYPE (agentserve_\w+) ", metrics.render({}, []).decode(), re.M)) - {
        f"{name}_created" for name in names
    } == set(named)
