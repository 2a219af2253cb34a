"""Settings, one frozen dataclass per part. Modules take their own; nothing else reads the
environment. Defaults live here and nowhere else."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from agentserve.core.errors import InvalidRequest
from agentserve.core.sessions import MAX_TIMEOUT_S

MIB = 1024 * 1024
GIB = 1024 * MIB
Auth = Literal["none", "keys"]
ROUTER_PORT = 8300
WORKER_PORT = 8301
MAX_TURN_TIMEOUT_S = 3600.0
BLOB_USE_EVERY_S = 1800.0
"""A use of a blob that so lately was used need not be written down: neither by a router, which has
seen the last one, nor by the store."""
MIN_BLOB_TTL_S = MAX_TIMEOUT_S + MAX_TURN_TIMEOUT_S + 2 * BLOB_USE_EVERY_S
"""As long as an open session may go without using what its next turn needs: it is idle for its
longest timeout, after its longest turn, whose use of them was not written down."""
BLOB_SCHEMES = ("s3://", "gs://", "az://")
LOG_FORMATS = ("text", "json")
LOG_LEVELS = ("debug", "info", "warning", "error")
STORE_SCHEMES = ("redis://", "rediss://", "unix://")
KEEP_CONNECTION_S = 2.0
"""How long our HTTP clients keep an idle connection: well below the 5 s after which uvicorn, which
serves SGLang too, closes it. A request that meets the closing looks like a lost server."""


def cache_folder() -> Path:
    """Where agentserve keeps what it builds for this user: AGENTSERVE_CACHE, else XDG's."""
    if path := os.environ.get("AGENTSERVE_CACHE"):
        return Path(path).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).expanduser() / "agentserve"


def router_url() -> str:
    """The router to talk to when none is named: AGENTSERVE_ROUTER, else the local one."""
    return given_router_url() or f"http://127.0.0.1:{ROUTER_PORT}"


def given_router_url() -> str | None:
    """The router that AGENTSERVE_ROUTER names; None when it names none."""
    return os.environ.get("AGENTSERVE_ROUTER") or None


def store_url() -> str | None:
    """The Redis that keeps a router's sessions: AGENTSERVE_STORE; None for its data folder."""
    return os.environ.get("AGENTSERVE_STORE") or None


def otlp_endpoint() -> bool:
    """Whether OpenTelemetry's variables say where traces go."""
    names = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    off = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return not off and any(os.environ.get(name) for name in names)


def service_name(default: str) -> str:
    """What this process is called in traces: OTEL_SERVICE_NAME, else ``default``."""
    return os.environ.get("OTEL_SERVICE_NAME") or default


def api_key() -> str | None:
    """The key that a client sends to the router: AGENTSERVE_KEY."""
    return os.environ.get("AGENTSERVE_KEY") or None


def secret_value(name: str) -> str | None:
    """Of a secret that a user names: the environment variable of that name."""
    return os.environ.get(name)


def chromium_path() -> Path | None:
    """The Chromium to run: AGENTSERVE_CHROMIUM, else CHROMIUM; None to look for one."""
    path = os.environ.get("AGENTSERVE_CHROMIUM") or os.environ.get("CHROMIUM")
    return Path(path).expanduser() if path else None


def _check(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise InvalidRequest(f"{name} must be between {low:g} and {high:g}, got {value:g}")


def worker_url(text: str) -> str:
    """A worker's base URL in the form by which it is known. Raises InvalidRequest."""
    try:
        parts = urlsplit(text)
        fits = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # a port that is none, a broken address
        fits = False
    plain = fits and not (parts.username or parts.password or parts.query or parts.fragment)
    if not plain or len(text) > 2000 or not text.isprintable() or " " in text:
        raise InvalidRequest(
            f"{text[:200]!r} is not a worker's URL", hint="write it as http://HOST:PORT"
        )
    return text.rstrip("/")


@dataclass(frozen=True)
class LogConfig:
    """How a process logs; see core.logs."""

    format: str = "text"
    """``text`` or ``json``."""
    level: str = "info"
    """The least of what is logged."""

    def __post_init__(self) -> None:
        for name, value, known in (
            ("log format", self.format, LOG_FORMATS),
            ("log level", self.level, LOG_LEVELS),
        ):
            if value not in known:
                raise InvalidRequest(
                    f"the {name} {value!r} is not known", hint=f"known: {', '.join(known)}"
                )

    def arguments(self) -> list[str]:
        """The same on a command line."""
        return ["--log-format", self.format, "--log-level", self.level]


@dataclass(frozen=True)
class RouterConfig:
    """Settings of ``agentserve serve``."""

    workers: tuple[str, ...] = ()
    """Base URLs of the workers."""
    workers_file: Path | None = None
    """A file with their URLs instead, which is watched: see router.workers.discovery."""
    data: Path = field(default_factory=lambda: Path("agentserve-data"))
    """Folder of the session database and the blobs."""
    store: str | None = field(default=None, repr=False)
    """URL of a Redis that keeps the sessions instead of the data folder. It may hold a password."""
    shared_port: int | None = None
    """A port that all routers of a machine listen on beside their own; they share a store."""
    blobs: Path | None = None
    """Folder of the blobs, the same for all routers that share a store. None: in ``data``."""
    blob_url: str | None = None
    """Bucket and prefix of an object store that has the blobs instead: see router.blobs.objects."""
    blob_cache_bytes: int = 10 * GIB
    """Most bytes of these blobs that are kept in ``data`` as well."""
    blob_quota_bytes: int = 0
    """Most bytes of one tenant's blobs; 0: no limit."""
    blob_ttl_s: float = 7 * 86_400.0
    """Blobs that nobody has used for so long are removed; 0: never."""
    programs: tuple[Path, ...] = ()
    """Folders (or files) of programs; the bundled ones when empty."""
    hosts: int = 1
    """Program host processes."""
    host_threads: int = 16
    """Turns that one host runs at once."""
    auth: Auth = "none"
    """``keys``: every request needs an API key, and sees what is its tenant's. ``none``: whoever
    reaches the port may do everything."""
    public_surfaces: tuple[str, ...] = ()
    """Surfaces whose sessions share KV and features with all tenants' sessions of them."""
    max_running_turns: int = 0
    """Turns that run at once; 0: as many as the hosts can."""
    max_queued_turns: int = 256
    """Turns that wait for that; each holds its screenshot in memory."""
    max_running_requests: int = 512
    """Generations of the pass-through that run at once."""
    max_queued_requests: int = 512
    max_running_per_tenant: int = 0
    """The same for each tenant, of turns and of requests; 0: no limit of its own."""
    max_queued_per_tenant: int = 0
    plain_workers: bool = False
    """Accept workers without the plugin, for the pass-through only."""
    max_body_bytes: int = 32 * MIB
    max_screenshot_bytes: int = 16 * MIB
    turn_timeout_s: float = 300.0
    max_turn_tokens: int = 512
    retention_s: float = 7 * 86_400.0
    """How long closed sessions are kept, with their turns and events; 0: for good."""
    health_interval_s: float = 1.0
    """How often each worker is asked for its health."""
    health_failures: int = 2
    """Failed checks in a row after which a worker is down."""
    worker_timeout_s: float = 600.0
    """Longest silence of a worker during a pass-through request."""
    log: LogConfig = LogConfig()
    """Of the router and its program hosts."""
    trace: bool = False
    """Whether both export traces; where to is said by OpenTelemetry's own variables."""

    def __post_init__(self) -> None:
        for url in self.workers:
            worker_url(url)
        if self.workers and self.workers_file is not None:
            raise InvalidRequest(
                "workers are given one by one and by a file: choose one of the two"
            )
        if self.store is not None and not self.store.startswith(STORE_SCHEMES):
            raise InvalidRequest(
                "the store is not a Redis URL", hint=f"it begins with {', '.join(STORE_SCHEMES)}"
            )
        if self.shared_port is not None:
            _check("shared_port", self.shared_port, 1, 65_535)
            if self.store is None:
                raise InvalidRequest(
                    "routers that share a port must share a store: there is none",
                    hint="give all of them the same --store redis://… and --blobs",
                )
        if self.blobs is not None and self.blob_url is not None:
            raise InvalidRequest(
                "blobs are in a folder or in an object store: choose one of the two"
            )
        _check("blob_cache_bytes", self.blob_cache_bytes, 64 * MIB, 2**50)
        _check("hosts", self.hosts, 1, 64)
        _check("host_threads", self.host_threads, 1, 1024)
        # more would wait in the hosts, where nobody sees to a fair order
        _check("max_running_turns", self.max_running_turns, 0, self.hosts * self.host_threads)
        _check("max_queued_turns", self.max_queued_turns, 0, 1_000_000)
        _check("max_running_requests", self.max_running_requests, 1, 1_000_000)
        _check("max_queued_requests", self.max_queued_requests, 0, 1_000_000)
        _check("max_running_per_tenant", self.max_running_per_tenant, 0, 1_000_000)
        _check("max_queued_per_tenant", self.max_queued_per_tenant, 0, 1_000_000)
        _check("turn_timeout_s", self.turn_timeout_s, 0.1, MAX_TURN_TIMEOUT_S)
        _check("blob_quota_bytes", self.blob_quota_bytes, 0, 2**50)
        if self.blob_ttl_s:
            _check("blob_ttl_s", self.blob_ttl_s, MIN_BLOB_TTL_S, 10 * 365 * 86_400)
        _check("max_turn_tokens", self.max_turn_tokens, 1, 32_768)
        _check("retention_s", self.retention_s, 0, 3650 * 86_400)
        _check("health_interval_s", self.health_interval_s, 0.05, 600)
        _check("health_failures", self.health_failures, 1, 100)

    @property
    def running_turns(self) -> int:
        """Turns that may run at once."""
        return self.max_running_turns or self.hosts * self.host_threads


@dataclass(frozen=True)
class FeatureCacheConfig:
    """Settings of a worker's feature cache; 1 MB is 2**20 bytes."""

    memory_mb: int = 1024
    """Most host memory for it, in each process that runs the vision encoder; 0: none."""
    folder: str | None = None
    """Folder shared by the workers of a host, on a local disk; None: nothing is written."""
    folder_mb: int = 16_384
    """Most bytes of the folder's files, whichever worker and model they are of."""

    def __post_init__(self) -> None:
        _check("memory_mb", self.memory_mb, 0, 16 * MIB)
        _check("folder_mb", self.folder_mb, 1, 1024 * MIB)


@dataclass(frozen=True)
class RunConfig:
    """Settings of one agent run in a browser."""

    max_turns: int = 15
    settle_timeout_s: float = 5.0
    """Longest wait for a page to settle before a screenshot."""
    repeat_limit: int = 3
    """The same action on the same screen this often in a row gets a nudge."""
    retry_timeout_s: float = 60.0
    """How long a turn is asked again while the router or its workers are unavailable."""
    headed: bool = False

    def __post_init__(self) -> None:
        _check("max_turns", self.max_turns, 1, 1000)
        _check("settle_timeout_s", self.settle_timeout_s, 0, 120)
        _check("repeat_limit", self.repeat_limit, 2, 100)
        _check("retry_timeout_s", self.retry_timeout_s, 0, 3600)
