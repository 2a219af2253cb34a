from __future__ import annotations

import pytest

from agentserve.core.errors import InvalidRequest
from agentserve.core.families import FAMILIES, family_named, family_of


def test_every_architecture_leads_to_its_family():
    for family in FAMILIES:
        assert family_named(family.name) is family
        for architecture in family.architectures:
            assert family_of(architecture) is family


def test_architectures_and_names_are_unique():
    architectures = [name for family in FAMILIES for name in family.architectures]
    assert len(architectures) == len(set(architectures))
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)


@pytest.mark.parametrize(("architecture", "grid"), [
    ("Qwen2_5_VLForConditionalGeneration", 28),
    ("Qwen3VLForConditionalGeneration", 32),
])  # fmt: skip
def test_grids(architecture, grid):
    assert family_of(architecture).grid == grid


def test_unknown_ones_are_refused_with_the_known():
    with pytest.raises(InvalidRequest) as caught:
        family_of("LlamaForCausalLM")
    assert "Qwen2_5_VLForConditionalGeneration" in caught.value.hint
    with pytest.raises(InvalidRequest) as caught:
        family_named("llama")
    assert "qwen3_vl" in caught.value.hint
