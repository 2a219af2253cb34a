"""Two builds of the nano checkpoint."""

from pathlib import Path

import pytest

from agentserve.nano.build import build_nano


@pytest.fixture(scope="session")
def nano(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_nano(tmp_path_factory.mktemp("nano") / "first")


@pytest.fixture(scope="session")
def nano_again(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_nano(tmp_path_factory.mktemp("nano") / "second")
