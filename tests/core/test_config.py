from __future__ import annotations

from pathlib import Path

import pytest

from agentserve.core.config import (
    FeatureCacheConfig,
    RouterConfig,
    RunConfig,
    cache_folder,
    router_url,
)
from agentserve.core.errors import InvalidRequest


def test_the_cache_folder_follows_the_environment(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    monkeypatch.delenv("AGENTSERVE_CACHE", raising=False)
    assert cache_folder() == Path("/x/agentserve")
    monkeypatch.setenv("AGENTSERVE_CACHE", "/own")
    assert cache_folder() == Path("/own")


def test_the_router_follows_the_environment(monkeypatch):
    monkeypatch.delenv("AGENTSERVE_ROUTER", raising=False)
    assert router_url() == "http://127.0.0.1:8300"
    monkeypatch.setenv("AGENTSERVE_ROUTER", "http://r:1")
    assert router_url() == "http://r:1"


@pytest.mark.parametrize(
    ("config", "field", "value"),
    [
        (RouterConfig, "hosts", 0),
        (RouterConfig, "host_threads", 0),
        (RouterConfig, "turn_timeout_s", 0),
        (RouterConfig, "max_running_turns", 17),
        (RouterConfig, "max_running_requests", 0),
        (RouterConfig, "max_queued_per_tenant", -1),
        (RouterConfig, "max_turn_tokens", 0),
        (RouterConfig, "health_interval_s", 0),
        (RouterConfig, "health_failures", 0),
        (RunConfig, "max_turns", 0),
        (RunConfig, "settle_timeout_s", -1),
        (RunConfig, "repeat_limit", 1),
        (FeatureCacheConfig, "memory_mb", -1),
        (FeatureCacheConfig, "folder_mb", 0),
    ],
)
def test_values_out_of_range_are_named(config, field, value):
    with pytest.raises(InvalidRequest, match=f"{field} must be between .* got {value}"):
        config(**{field: value})


def test_as_many_turns_run_as_the_hosts_have_threads_for():
    assert RouterConfig(hosts=2, host_threads=3).running_turns == 6
    assert RouterConfig(hosts=2, host_threads=3, max_running_turns=5).running_turns == 5
