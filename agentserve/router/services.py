"""The router's parts, put together."""

from __future__ import annotations

import asyncio
import fcntl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from agentserve import __version__
from agentserve.core.config import RouterConfig
from agentserve.core.errors import AgentServeError, StorageFailed
from agentserve.router.admission import Admissions
from agentserve.router.audit import AuditLog
from agentserve.router.blobs import BlobStore
from agentserve.router.blobs.backend import BlobBackend, FolderBackend
from agentserve.router.blobs.cached import CachedBackend
from agentserve.router.blobs.objects import ObjectStore
from agentserve.router.events import EventLog
from agentserve.router.hosts import HostCommand, HostPool
from agentserve.router.identity import Keys
from agentserve.router.lag import watch_lag
from agentserve.router.metrics import Metrics
from agentserve.router.passthrough.passing import Passing
from agentserve.router.pins.draining import Drains
from agentserve.router.reaper import Reaper
from agentserve.router.releasing import Releases
from agentserve.router.replica import Replica
from agentserve.router.sessions import Sessions
from agentserve.router.store import MeasuredStore, RedisStore, SqliteStore, Store
from agentserve.router.surfaces import Surfaces
from agentserve.router.tasks import end
from agentserve.router.turns.handover import Handover
from agentserve.router.turns.log import TurnLog
from agentserve.router.turns.planning import Planner
from agentserve.router.turns.running import TurnRunner
from agentserve.router.turns.service import Turns
from agentserve.router.workers.discovery import (
    Discovery,
    FileDiscovery,
    RuntimeDiscovery,
    StaticDiscovery,
    read_workers,
)
from agentserve.router.workers.registry import WorkerRegistry


@dataclass(frozen=True)
class Services:
    """What the routes use."""

    config: RouterConfig
    store: Store
    keys: Keys
    audit: AuditLog
    events: EventLog
    blobs: BlobStore
    registry: WorkerRegistry
    discovery: RuntimeDiscovery
    hosts: HostPool
    sessions: Sessions
    turns: Turns
    admission: Admissions
    passing: Passing
    drains: Drains
    replica: Replica
    metrics: Metrics


@asynccontextmanager
async def running_services(
    config: RouterConfig, command: HostCommand, metrics: Metrics
) -> AsyncIterator[Services]:
    """Start everything, in the order of dependence; stop it in the reverse."""
    try:
        config.data.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageFailed(
            f"the data folder {config.data} cannot be made: {error.strerror}",
            hint="choose another --data",
        ) from error
    with _owned(config.data):
        opened = await open_store(config)
        store = MeasuredStore(opened, metrics.store_seconds, metrics.store_failures)
        try:
            events = EventLog(store)
            backend = await _open_blobs(config)
            if await store.agree("blobs", backend.id) != backend.id:
                raise StorageFailed(
                    "the routers of this store have another blob folder than "
                    f"{config.blob_url or backend.folder.root}",
                    hint="give all of them the same --blobs: a folder on a file system that they "
                    "share, or an object store",
                )
            blobs = BlobStore(
                backend, store.ledger, metrics,
                quota=config.blob_quota_bytes, ttl_s=config.blob_ttl_s,
            )  # fmt: skip
            discovery = RuntimeDiscovery(_discovery(config), store)
            registry = WorkerRegistry(config, discovery)
            hosts = HostPool(config, backend.folder.root, command, metrics)
            surfaces = Surfaces(store, hosts, config.public_surfaces)
            planner = Planner(store, blobs, surfaces, config.max_turn_tokens)
            releases = Releases(registry, surfaces, metrics)
            sessions = Sessions(
                store, events, registry, hosts, surfaces, planner, metrics, releases,
                max_turn_tokens=config.max_turn_tokens,
            )  # fmt: skip
            replica = Replica(store, lambda session_id: turns.heard(session_id))
            keys = Keys(store)
            admission = Admissions.of(config, keys.limits_of)
            handover = Handover(config.data / "handover")
            turn_log = TurnLog(store, events, sessions)
            runner = TurnRunner(
                config, turn_log, sessions, registry, hosts, blobs, handover, planner, surfaces,
                metrics, releases, replica.id,
            )  # fmt: skip
            turns = Turns(
                config, store, events, sessions, turn_log, runner, metrics, admission.turns,
                replica.id,
            )  # fmt: skip
            passing = Passing(store, sessions, registry)
            drains = Drains(
                store, sessions.pins, registry, hosts, planner, replica, config.turn_timeout_s
            )
            reaper = Reaper(store, sessions, registry, replica, config.retention_s, blobs)
            metrics.router.labels(replica.id, __version__).set(1)
            await replica.start()
            await sessions.recover(await replica.alive())
            await registry.start()
            await hosts.start()
            await reaper.start()
            await drains.open()
            lag = asyncio.create_task(watch_lag(metrics.loop_lag))
            try:
                yield Services(
                    config=config,
                    store=store,
                    keys=keys,
                    audit=AuditLog(config.data / "audit.jsonl"),
                    events=events,
                    blobs=blobs,
                    registry=registry,
                    discovery=discovery,
                    hosts=hosts,
                    sessions=sessions,
                    turns=turns,
                    admission=admission,
                    passing=passing,
                    drains=drains,
                    replica=replica,
                    metrics=metrics,
                )
            finally:
                await end([lag])
                await drains.close()
                await turns.stop()
                await handover.stop()
                await reaper.stop()
                await releases.stop()
                await hosts.stop()
                await registry.stop()
                await replica.stop()
        finally:
            await store.close()


async def open_store(config: RouterConfig) -> Store:
    """The store that the settings name: Redis, or SQLite in the data folder. Raises StorageFailed,
    and InvalidRequest for a URL that is none."""
    if config.store is not None:
        return await RedisStore.open(config.store)
    return await SqliteStore.open(config.data / "sessions.sqlite")


async def _open_blobs(config: RouterConfig) -> BlobBackend:
    """Raises StorageFailed, and InvalidRequest for a URL that is none."""
    if config.blob_url is None:
        return FolderBackend(config.blobs or config.data / "blobs")
    objects = ObjectStore(config.blob_url)
    return await CachedBackend.open(config.data / "blob-cache", objects, config.blob_cache_bytes)


def _discovery(config: RouterConfig) -> Discovery:
    if config.workers_file is not None:
        read_workers(config.workers_file)  # a mistake is told at the start
        return FileDiscovery(config.workers_file)
    return StaticDiscovery(config.workers)


@contextmanager
def _owned(data: Path) -> Iterator[None]:
    """One router per data folder: a second one would take the first one's turns for lost."""
    with open(data / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AgentServeError(
                f"another router uses the data folder {data}",
                hint="stop it, or give this one its own --data",
            ) from None
        yield
