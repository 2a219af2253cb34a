"""The pytest plugin: ``pytest --agentserve scenarios/`` runs each recording as a test.

Loaded by every pytest that finds agentserve installed, so that nothing but pytest is imported here
until it is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from agentserve.pytest_plugin.service import Service

MODES: tuple[Literal["model", "browser", "full"], ...] = ("model", "browser", "full")
_OFFER = "agentserve_offer"
"""In what xdist's controller tells its workers: the folder in which they ask for a router."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("agentserve", "recorded GUI sessions (agentserve)")
    group.addoption(
        "--agentserve", action="store_true", help="collect recordings: each is a test of each mode"
    )
    group.addoption(
        "--agentserve-mode",
        metavar="MODES",
        default="",
        help=f"of {', '.join(MODES)}, by commas (default: model for an agent's, else browser)",
    )
    group.addoption(
        "--agentserve-router",
        metavar="URL",
        default=None,
        help="use this router (default: AGENTSERVE_ROUTER, else one is started for the tests)",
    )
    group.addoption(
        "--agentserve-html", metavar="FILE", default=None, help="write a page of all replays"
    )
    group.addoption(
        "--agentserve-update",
        action="store_true",
        help="accept what differs: it alone passes from now on",
    )
    group.addoption(
        "--agentserve-also",
        action="store_true",
        help="with --agentserve-update: what passed until now passes as well",
    )
    group.addoption(
        "--agentserve-network",
        choices=("live", "recorded"),
        default=None,
        help="of the mode browser: recorded answers pages from the recording (default: live)",
    )
    group.addoption(
        "--agentserve-on-miss",
        choices=("fail", "live"),
        default=None,
        help="of recorded network answers: what a request that was not recorded gets "
        "(default: fail)",
    )
    group.addoption(
        "--agentserve-secret",
        metavar="NAME",
        action="append",
        default=[],
        help="a secret of the recordings, read from the variable of that name; repeatable",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "replay: a recording (agentserve)")
    if config.getoption("agentserve"):
        from agentserve.pytest_plugin.reporting import Reporting
        from agentserve.pytest_plugin.settings import settings_of

        settings_of(config)
        config.pluginmanager.register(Reporting(config), "agentserve-reporting")


def pytest_unconfigure(config: pytest.Config) -> None:
    from agentserve.pytest_plugin.keys import OFFER, SERVICE

    if (offer := config.stash.get(OFFER, None)) is not None:
        offer.close()
    if (running := config.stash.get(SERVICE, None)) is not None:
        running.stop()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Of xdist, in its controller: a router is started here, once, when a worker asks for one."""
    from agentserve.pytest_plugin.keys import OFFER
    from agentserve.pytest_plugin.sharing import Offer

    config = node.config
    if (offer := config.stash.get(OFFER, None)) is None:
        offer = Offer(lambda: service_of(config).router_url())
        config.stash[OFFER] = offer
    node.workerinput[_OFFER] = str(offer.folder)


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if not parent.config.getoption("agentserve"):
        return None
    from agentserve.pytest_plugin.collect import RecordingFolder
    from agentserve.replay.bundle.below import is_recording

    return RecordingFolder.from_parent(parent, path=path) if is_recording(path) else None


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if not parent.config.getoption("agentserve") or file_path.suffix != ".zip":
        return None
    from agentserve.pytest_plugin.collect import RecordingFile
    from agentserve.replay.bundle.below import is_recording

    # many tools make zip files: only who names one is told that it is no recording
    if not parent.session.isinitpath(file_path) and not is_recording(file_path):
        return None
    return RecordingFile.from_parent(parent, path=file_path)


def service_of(config: pytest.Config) -> Service:
    """The process's own: it starts what the tests need, when they need it."""
    from agentserve.core.config import given_router_url
    from agentserve.pytest_plugin.keys import SERVICE
    from agentserve.pytest_plugin.service import Service

    if (running := config.stash.get(SERVICE, None)) is None:
        given = config.getoption("agentserve_router") or given_router_url()
        offered = getattr(config, "workerinput", {}).get(_OFFER)
        running = Service(given, offered and Path(offered))
        config.stash[SERVICE] = running
    return running


@pytest.fixture(scope="session")
def router(pytestconfig: pytest.Config) -> str:
    """URL of a router: the one that was named, or one of the tests' own over a nano worker."""
    return service_of(pytestconfig).router_url()


@pytest.fixture(scope="session")
def worker(pytestconfig: pytest.Config) -> str:
    """URL of the first worker of ``router``."""
    return service_of(pytestconfig).worker_url()


@pytest.fixture
def session(pytestconfig: pytest.Config) -> Iterator[Any]:
    """Creates sessions and asks their turns, and releases them at the end of the test."""
    with service_of(pytestconfig).sessions() as sessions:
        yield sessions
