"""What ``agentserve worker`` tells its server's processes, through two environment variables."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from agentserve.core.config import FeatureCacheConfig

WORKER_VARIABLE = "AGENTSERVE_WORKER"
"""The Boot as JSON: set in the processes that run with the plugin."""
CACHE = "agentserve"
"""The prefix cache's name for ``--radix-cache-backend``, in every process with the plugin."""
PARENT_VARIABLE = "AGENTSERVE_PARENT"
"""Process id of the parent with which a process of the worker must end."""


@dataclass(frozen=True)
class Boot:
    """One start of a worker; all of its processes share it."""

    boot_id: str = field(default_factory=lambda: f"b-{secrets.token_hex(8)}")
    """Fresh with every start: a worker with a new one has a cold cache."""
    feature_cache: FeatureCacheConfig = field(default_factory=FeatureCacheConfig)
    count_flops: bool = False
    """Whether what prompts take is counted: see engine.flops."""

    def to_environment(self) -> dict[str, str]:
        return {WORKER_VARIABLE: json.dumps(asdict(self))}


def boot_of(environment: Mapping[str, str] = os.environ) -> Boot | None:
    """The boot this process belongs to; None when ``agentserve worker`` did not start it."""
    text = environment.get(WORKER_VARIABLE)
    if not text:
        return None
    settings = json.loads(text)
    return Boot(**settings | {"feature_cache": FeatureCacheConfig(**settings["feature_cache"])})
