"""How the settings of a comparison are written."""

from __future__ import annotations

import pytest

from agentserve.bench.settings import settings_of
from agentserve.core.errors import InvalidRequest
from agentserve.core.families import family_named

FAMILY = family_named("qwen2_5_vl")


def test_the_baselines_are_there_whatever_is_asked_for() -> None:
    settings = settings_of("fastv, flat:0.3, after:look_m, after:vtw", [0.25, 0.5], FAMILY)
    assert [setting.name for setting in settings] == [
        *("off", "fastv:0.25", "fastv:0.5", "flat:0.3"),
        *("after:look_m:0.25", "after:look_m:0.5", "after:vtw"),
        *("uniform:0.25", "uniform:0.5", "random:0.25", "random:0.5"),
        *("after:uniform:0.25", "after:uniform:0.5", "after:random:0.25", "after:random:0.5"),
    ]
    assert settings[2].compression.pruning.ratio == 0.5
    assert settings[4].compression.eviction.keep == 0.75


def test_all_methods_that_the_model_can_do() -> None:
    every = {setting.method for setting in settings_of(None, [0.5], FAMILY)}
    outside = {setting.method for setting in settings_of(None, [0.5], family_named("qwen3_vl"))}
    assert every - outside == {"fastv", "pyramid_drop", "btp", "sparsevlm"}
    assert {"evs", "tome", "after:attention"} <= outside


@pytest.mark.parametrize(
    ("asked", "words"),
    [("fast", "methods: uniform"), ("after:fastv", "methods: vtw"), ("fastv:half", "is no ratio")],
)
def test_a_mistake_is_told(asked: str, words: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        settings_of(asked, [0.5], FAMILY)
    assert words in f"{raised.value.message} {raised.value.hint}"
