"""A worker of the tests' own, beside those of the session's stack."""

import pytest

from .processes import start_worker, stop_worker


@pytest.fixture(scope="module")
def plain_worker(tmp_path_factory: pytest.TempPathFactory):
    """A stock SGLang server, started like a worker but without the plugin."""
    worker = start_worker(tmp_path_factory.mktemp("plain"), plugin=False)
    try:
        worker.wait_ready()
        yield worker
    finally:
        stop_worker(worker)
