"""``agentserve serve``: the router."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from agentserve.cli.console import err
from agentserve.core.config import (
    GIB,
    LOG_FORMATS,
    LOG_LEVELS,
    ROUTER_PORT,
    Auth,
    LogConfig,
    RouterConfig,
    otlp_endpoint,
    store_url,
)
from agentserve.core.errors import InvalidRequest

if TYPE_CHECKING:
    from agentserve.router.server import Tls

_DEFAULT = RouterConfig()
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def bundled_programs() -> Path:
    """The programs that come with a checkout; an installed package names its own by --programs."""
    return Path(__file__).resolve().parents[2] / "programs"


def serve(
    worker: Annotated[
        list[str] | None, typer.Option(help="Base URL of a worker; repeat for several.")
    ] = None,
    workers_file: Annotated[
        Path | None,
        typer.Option(help="A file with a worker's URL a line instead, which is watched."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = ROUTER_PORT,
    shared_port: Annotated[
        int | None,
        typer.Option(
            help="A port to listen on as well, together with the other routers of this machine "
            "that name it and share the --store: the kernel spreads connections over them."
        ),
    ] = None,
    data: Annotated[
        Path, typer.Option(help="Folder of the session database and the blobs.")
    ] = _DEFAULT.data,
    store: Annotated[
        str | None,
        typer.Option(
            help="URL of a Redis that keeps the sessions, so that routers can share them. "
            "(default: AGENTSERVE_STORE, else the data folder)"
        ),
    ] = None,
    blobs: Annotated[
        str | None,
        typer.Option(
            help="Folder of the screenshots, or s3://BUCKET/PREFIX, gs://… or az://…: the same for "
            "all routers that share a store. (default: a folder in --data)"
        ),
    ] = None,
    blob_cache_gb: Annotated[
        float,
        typer.Option(help="Most GB of an object store's screenshots that are kept in --data."),
    ] = _DEFAULT.blob_cache_bytes / GIB,
    blob_quota_gb: Annotated[
        float, typer.Option(help="Most GB (2**30 bytes) of one tenant's screenshots; 0: no limit.")
    ] = _DEFAULT.blob_quota_bytes / GIB,
    blob_ttl_h: Annotated[
        float,
        typer.Option(help="Hours after which screenshots that nobody uses are removed; 0: never."),
    ] = _DEFAULT.blob_ttl_s / 3600,
    programs: Annotated[
        list[Path] | None,
        typer.Option(help="Program file or folder; repeat for several. (default: bundled)"),
    ] = None,
    hosts: Annotated[int, typer.Option(help="Program host processes.")] = _DEFAULT.hosts,
    host_threads: Annotated[
        int, typer.Option(help="Turns that one program host runs at once.")
    ] = _DEFAULT.host_threads,
    auth: Annotated[
        str | None,
        typer.Option(
            help="keys: every request needs an API key of `agentserve keys`; none: whoever reaches "
            "the port may do everything. (default: none on 127.0.0.1, else keys)"
        ),
    ] = None,
    public_surface: Annotated[
        list[str] | None,
        typer.Option(
            help="A surface whose sessions share caches with all tenants; repeat for several."
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(help="Certificate chain (PEM): serve HTTPS.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The certificate's private key.")] = None,
    max_running_turns: Annotated[
        int, typer.Option(help="Turns that run at once. (0: as many as the hosts can)")
    ] = _DEFAULT.max_running_turns,
    max_queued_turns: Annotated[
        int, typer.Option(help="Turns that wait for that; more are refused.")
    ] = _DEFAULT.max_queued_turns,
    max_running_requests: Annotated[
        int, typer.Option(help="Generations of the pass-through that run at once.")
    ] = _DEFAULT.max_running_requests,
    max_queued_requests: Annotated[
        int, typer.Option(help="Generations that wait for that; more are refused.")
    ] = _DEFAULT.max_queued_requests,
    max_running_per_tenant: Annotated[
        int, typer.Option(help="Of each tenant, turns and requests that run. (0: no own limit)")
    ] = _DEFAULT.max_running_per_tenant,
    max_queued_per_tenant: Annotated[
        int, typer.Option(help="Of each tenant, turns and requests that wait. (0: no own limit)")
    ] = _DEFAULT.max_queued_per_tenant,
    plain_workers: Annotated[
        bool, typer.Option(help="Accept workers without the plugin, for the pass-through only.")
    ] = _DEFAULT.plain_workers,
    retention_days: Annotated[
        float, typer.Option(help="Closed sessions are forgotten after so many days; 0: never.")
    ] = _DEFAULT.retention_s / 86_400,
    max_body_bytes: Annotated[
        int, typer.Option(help="Largest request body.")
    ] = _DEFAULT.max_body_bytes,
    turn_timeout_s: Annotated[
        float, typer.Option(help="Longest a turn may take.")
    ] = _DEFAULT.turn_timeout_s,
    max_turn_tokens: Annotated[
        int, typer.Option(help="Most tokens that one generation of a turn may add.")
    ] = _DEFAULT.max_turn_tokens,
    trace: Annotated[
        bool | None,
        typer.Option(
            "--trace/--no-trace",
            help="Export traces over OTLP. (default: when OTEL_EXPORTER_OTLP_ENDPOINT is set)",
        ),
    ] = None,
    log_format: Annotated[
        str, typer.Option(help=f"Of the log on standard error: {' or '.join(LOG_FORMATS)}.")
    ] = LogConfig.format,
    log_level: Annotated[
        str, typer.Option(help=f"The least of what is logged: {', '.join(LOG_LEVELS)}.")
    ] = LogConfig.level,
) -> None:
    """Serve the session API over one or more workers."""
    from agentserve.router.server import run_router

    if not worker and workers_file is None:
        raise typer.BadParameter("give --worker, or --workers-file")
    for path in programs or []:
        if not path.exists():
            raise InvalidRequest(f"--programs {path}: there is no such file or folder")

    url = blobs is not None and "://" in blobs
    config = RouterConfig(
        workers=tuple(worker or ()),
        workers_file=workers_file,
        data=data,
        store=store or store_url(),
        shared_port=shared_port,
        blobs=Path(blobs) if blobs and not url else None,
        blob_url=blobs if url else None,
        blob_cache_bytes=round(blob_cache_gb * GIB),
        blob_quota_bytes=round(blob_quota_gb * GIB),
        blob_ttl_s=blob_ttl_h * 3600,
        programs=tuple(programs or [bundled_programs()]),
        hosts=hosts,
        host_threads=host_threads,
        auth=_auth(auth, host),
        public_surfaces=tuple(public_surface or ()),
        max_running_turns=max_running_turns,
        max_queued_turns=max_queued_turns,
        max_running_requests=max_running_requests,
        max_queued_requests=max_queued_requests,
        max_running_per_tenant=max_running_per_tenant,
        max_queued_per_tenant=max_queued_per_tenant,
        plain_workers=plain_workers,
        retention_s=retention_days * 86_400,
        max_body_bytes=max_body_bytes,
        turn_timeout_s=turn_timeout_s,
        max_turn_tokens=max_turn_tokens,
        log=LogConfig(log_format, log_level),
        trace=_traces(trace),
    )
    if config.auth == "none" and host not in _LOOPBACK:
        err.print(
            f"[yellow]warning[/]: listening on {host} without API keys: "
            "anyone who reaches the port can use it"
        )
    run_router(config, host, port, tls=_tls(tls_cert, tls_key))


def _traces(wanted: bool | None) -> bool:
    """Whether traces are exported. Raises InvalidRequest when they are to be and cannot."""
    from agentserve.core.tracing import MISSING, can_export, check_export

    if wanted:
        check_export()
    if wanted is None and (wanted := otlp_endpoint()) and not can_export():
        # the variable may be meant for others on this machine
        err.print(
            "[yellow]warning[/]: OTEL_EXPORTER_OTLP_ENDPOINT is set, but no traces are exported: "
            f"OpenTelemetry's SDK is missing ({escape(MISSING)})"
        )
        return False
    return bool(wanted)


def _auth(asked: str | None, host: str) -> Auth:
    match asked:
        case "none" | "keys":
            return asked
        case None:
            return "none" if host in _LOOPBACK else "keys"
    raise typer.BadParameter("--auth is keys or none")


def _tls(cert: Path | None, key: Path | None) -> Tls | None:
    from agentserve.router.server import Tls

    if cert is None and key is None:
        return None
    if cert is None or key is None:
        raise typer.BadParameter("give --tls-cert and --tls-key together")
    return Tls(cert, key)
