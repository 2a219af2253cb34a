"""What the plugin keeps in pytest's stashes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from agentserve.pytest_plugin.service import Service
    from agentserve.pytest_plugin.settings import Settings
    from agentserve.pytest_plugin.sharing import Offer
    from agentserve.replay import Replayed

SERVICE: pytest.StashKey[Service] = pytest.StashKey()
OFFER: pytest.StashKey[Offer] = pytest.StashKey()
SETTINGS: pytest.StashKey[Settings] = pytest.StashKey()
REPLAYED: pytest.StashKey[Replayed] = pytest.StashKey()
