"""What the plugin keeps in pytest's stashes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from agentserve.pytest_plugin.service import Service
    from agentserve.replay import Replayed

SERVICE: pytest.StashKey[Service] = pytest.StashKey()
REPLAYED: pytest.StashKey[Replayed] = pytest.StashKey()
