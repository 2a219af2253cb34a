"""``agentserve keys``: the API keys of a router's tenants. Works on the router's store itself, so
it is for whoever may write there; the router need not run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from agentserve.cli.console import err, out
from agentserve.core.config import RouterConfig, store_url
from agentserve.core.errors import InvalidRequest
from agentserve.core.tenants import ApiKey, KeyLimits, Role, TenantId, new_key

if TYPE_CHECKING:
    from agentserve.router.store import Store

app = typer.Typer(help="Create, list and revoke API keys.", no_args_is_help=True)
_DEFAULT = RouterConfig()
Data = Annotated[Path, typer.Option(help="The router's --data.")]
StoreUrl = Annotated[
    str | None, typer.Option("--store", help="The router's --store. (default: AGENTSERVE_STORE)")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def create(
    tenant: Annotated[str, typer.Option(help="Whose it is: letters, digits and . _ -")],
    role: Annotated[
        Role, typer.Option(help="user: its tenant's sessions; admin: the workers as well.")
    ] = Role.USER,
    name: Annotated[str, typer.Option(help="What it is for.")] = "",
    days: Annotated[
        int | None, typer.Option(min=1, help="It expires after so many days. (default: never)")
    ] = None,
    running: Annotated[
        int | None, typer.Option(min=1, help="Most turns that the tenant runs at once.")
    ] = None,
    queued: Annotated[
        int | None, typer.Option(min=1, help="Most turns of the tenant that wait.")
    ] = None,
    data: Data = _DEFAULT.data,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Make a key and print it. It is shown once: only its hash is kept."""
    try:
        TypeAdapter(TenantId).validate_python(tenant)
    except ValidationError:
        raise InvalidRequest(
            f"{tenant[:100]!r} is no tenant's name", hint="1 to 64 letters, digits and . _ -"
        ) from None
    until = None if days is None else datetime.now(UTC) + timedelta(days=days)
    limits = KeyLimits(running=running, queued=queued)
    text, key = new_key(tenant, role, name=name[:100], expires_at=until, limits=limits)

    async def put() -> None:
        async with _opened(data, store) as opened:
            await opened.put_key(key)

    asyncio.run(put())
    if as_json:
        print(json.dumps({"key": text, **_shown(key)}))
        return
    print(text)
    err.print(f"[dim]key {key.id} of tenant {tenant} ({role.value}); it is not shown again[/]")
    err.print("[dim]next: export AGENTSERVE_KEY=… for agentserve's own commands, or send it as[/]")
    err.print("[dim]`Authorization: Bearer …`; the router is started with --auth keys[/]")


@app.command("list")
def list_keys(data: Data = _DEFAULT.data, store: StoreUrl = None, as_json: AsJson = False) -> None:
    """Show all keys, without the keys themselves."""

    async def read() -> list[ApiKey]:
        async with _opened(data, store) as opened:
            return await opened.keys()

    found = asyncio.run(read())
    if as_json:
        print(json.dumps([_shown(key) for key in found]))
        return
    if not found:
        out.print("no keys; next: agentserve keys create --tenant NAME")
        return
    _table(found)


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(help="As `agentserve keys list` shows it.")],
    data: Data = _DEFAULT.data,
    store: StoreUrl = None,
) -> None:
    """Make a key useless. Running routers notice within seconds; the tenant's sessions stay."""

    async def drop() -> bool:
        async with _opened(data, store) as opened:
            return await opened.drop_key(key_id)

    if not asyncio.run(drop()):
        raise InvalidRequest(f"there is no key {key_id!r}", hint="see agentserve keys list")
    out.print(f"{key_id} is revoked")


@asynccontextmanager
async def _opened(data: Path, store: str | None) -> AsyncIterator[Store]:
    from agentserve.router.services import open_store

    config = RouterConfig(data=data, store=store or store_url())
    opened = await open_store(config)
    try:
        yield opened
    finally:
        await opened.close()


def _shown(key: ApiKey) -> dict[str, object]:
    return key.model_dump(mode="json", exclude={"sha256"})


def _table(found: list[ApiKey]) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table("key", "tenant", "role", "for", "created", "expires", "limits", box=None)
    now = datetime.now(UTC)
    for key in found:
        expires = "never"
        if key.expires_at is not None:
            expires = f"{key.expires_at:%Y-%m-%d}" + ("" if now < key.expires_at else " (past)")
        limits = [
            f"{value} {name}"
            for name, value in key.limits.model_dump().items()
            if value is not None
        ]
        table.add_row(
            key.id, key.tenant, key.role.value, escape(key.name), f"{key.created_at:%Y-%m-%d}",
            expires, ", ".join(limits) or "the router's",
        )  # fmt: skip
    out.print(table)
