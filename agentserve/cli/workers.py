"""``agentserve workers``: who serves behind a router; how one is emptied, added and removed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentserve.cli.bench_run import JsonOption
from agentserve.cli.console import err, out, run_until_signal
from agentserve.core.config import api_key, router_url
from agentserve.core.errors import UnknownWorker

if TYPE_CHECKING:
    from agentserve.client import RouterClient
    from agentserve.core.workers import Drain, Worker

app = typer.Typer(
    invoke_without_command=True, help="List a router's workers; empty, add and remove them."
)
Router = Annotated[
    str | None, typer.Option(help="The router's URL. (default: $AGENTSERVE_ROUTER, else local)")
]
Named = Annotated[str, typer.Argument(help="A worker's id or URL.")]


@app.callback()
def workers(context: typer.Context, router: Router = None, as_json: JsonOption = False) -> None:
    """List the workers: state, sessions, running turns, room."""
    if context.invoked_subcommand is None:
        found = run_until_signal(_list(router))
        if as_json:
            from agentserve.core.workers import WorkerList

            out.print_json(WorkerList(workers=found).model_dump_json())
        else:
            _tell(found)


@app.command()
def drain(
    worker: Named,
    router: Router = None,
    wait: Annotated[bool, typer.Option(help="Wait until nothing is left on it.")] = True,
) -> None:
    """Empty a worker, so that it can be stopped: sessions are computed elsewhere, then moved.

    Ctrl-C ends the waiting, not the drain: `agentserve workers undrain` does that.
    """
    run_until_signal(_drain(worker, router, wait))


@app.command()
def undrain(worker: Named, router: Router = None) -> None:
    """Let a worker take sessions again. What was moved stays where it is."""
    run_until_signal(_undrain(worker, router))


@app.command()
def add(
    url: Annotated[str, typer.Argument(help="Its base URL, as the router reaches it.")],
    router: Router = None,
) -> None:
    """Let a router, and all that share its store, use one more worker."""
    run_until_signal(_add(url, router))


@app.command()
def remove(
    worker: Named,
    router: Router = None,
    force: Annotated[
        bool, typer.Option("--force", help="Though it has sessions: they are computed anew.")
    ] = False,
) -> None:
    """Forget a worker that was added like this. Drain it first."""
    run_until_signal(_remove(worker, router, force))


async def _list(router: str | None) -> list[Worker]:
    async with _client(router) as client:
        return (await client.workers()).workers


async def _drain(name: str, router: str | None, wait: bool) -> None:
    async with _client(router) as client:
        worker = await _named(client, name)
        begun = await client.drain(worker.id)
        assert begun.drain is not None
        if not wait:
            out.print(f"{worker.id} takes no new sessions; {begun.drain.left} are to be moved")
            out.print("next: agentserve workers, to see how far it is")
            return
        drain = begun.drain
        with _Progress() as shown:
            async for drain in client.follow_drain(worker.id):
                shown(drain)
    if drain.done:
        out.print(
            f"{worker.id} is empty: {drain.moved} sessions were moved, {drain.warmed_tokens:,} "
            "tokens were computed elsewhere before"
        )
        out.print(f"next: stop the worker at {worker.url}, or agentserve workers undrain")
    else:
        out.print(f"{worker.id}: its drain was undone; {drain.moved} sessions were moved")


async def _undrain(name: str, router: str | None) -> None:
    async with _client(router) as client:
        worker = await client.undrain((await _named(client, name)).id)
    out.print(f"{worker.id} takes sessions again")


async def _add(url: str, router: str | None) -> None:
    async with _client(router) as client:
        worker = await client.add_worker(url)
    out.print(f"{worker.id} {worker.url} is {worker.state.value}")
    out.print("next: agentserve workers, to see that it becomes ready")


async def _remove(name: str, router: str | None, force: bool) -> None:
    async with _client(router) as client:
        worker = await _named(client, name)
        await client.remove_worker(worker.id, force=force)
    out.print(f"{worker.id} {worker.url} is forgotten; its process is yours to stop")


def _client(router: str | None) -> RouterClient:
    from agentserve.client import RouterClient

    return RouterClient(router or router_url(), api_key=api_key())


async def _named(client: RouterClient, name: str) -> Worker:
    """Raises UnknownWorker."""
    known = (await client.workers()).workers
    for worker in known:
        if name.rstrip("/") in (worker.id, worker.url):
            return worker
    raise UnknownWorker(
        f"the router has no worker {name!r}",
        hint="known: " + (", ".join(f"{one.id} {one.url}" for one in known) or "none"),
    )


class _Progress:
    """A bar of the sessions that are moved."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self._bar = Progress(*columns, console=err, disable=not err.is_terminal)

    def __enter__(self) -> Callable[[Drain], None]:
        self._bar.start()
        task = self._bar.add_task("sessions", total=None)

        def shown(drain: Drain) -> None:
            total = drain.moved + drain.left
            words = f"sessions ({drain.reason})" if drain.reason else "sessions"
            self._bar.update(task, completed=drain.moved, total=total, description=words)

        return shown

    def __exit__(self, *_: Any) -> None:
        self._bar.stop()


def _tell(found: list[Worker]) -> None:
    from rich.table import Table

    table = Table("worker", "url", "model", "state", box=None)
    for name in ("sessions", "running", "KV slots"):
        table.add_column(name, justify="right")
    for worker in found:
        state = worker.state.value + (f": {worker.reason}" if worker.reason else "")
        if worker.drain is not None:
            left = worker.drain.left
            state += ", drained" if worker.drain.done else f", drain: {left} left"
        report = worker.report
        table.add_row(
            worker.id,
            worker.url,
            report.served_model_name if report else "?",
            state,
            str(worker.sessions),
            str(worker.running_turns),
            f"{report.max_total_tokens:,}" if report else "?",
        )
    out.print(table)
