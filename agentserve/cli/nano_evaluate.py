"""``agentserve nano evaluate``: how often the model succeeds, through the whole product."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from agentserve.cli.console import err, out, run_until_signal
from agentserve.cli.screens import (
    Cell,
    Context,
    EvictionOption,
    Policy,
    PositionsOption,
    PresetOption,
    PruningOption,
    screen_policy,
    words_of,
)
from agentserve.core.errors import AgentServeError, InvalidRequest
from agentserve.core.sessions import ScreenPolicy
from agentserve.nano.evaluate.episodes import BASELINES, HELD_OUT, PLAYERS

if TYPE_CHECKING:
    from agentserve.nano.evaluate.episodes import PlayerName
    from agentserve.nano.evaluate.report import Report

PROGRAM, CONCURRENCY = "navigator", 4
SCREENS = ScreenPolicy(policy="current")


@dataclass(frozen=True)
class EvaluateOptions:
    episodes: int
    tasks: tuple[str, ...]
    players: tuple[PlayerName, ...]
    model: str | None
    router: str | None
    concurrency: int
    screens: ScreenPolicy
    program: str
    max_turns: int | None
    as_json: bool
    out: Path | None
    readme: Path | None
    resume: bool

    @property
    def log(self) -> Path | None:
        """Where episodes are kept until all are played."""
        return None if self.out is None else self.out.with_name(f"{self.out.name}.partial")

    @property
    def command(self) -> str:
        """What to run to get the same figures again; it names no file that is written."""
        words = ["agentserve", "nano", "evaluate", "--episodes", str(self.episodes)]
        words += ["--tasks", ",".join(self.tasks)]
        baselines = tuple(player for player in BASELINES if player in self.players)
        if baselines != BASELINES:
            words += ["--baselines", ",".join(baselines) or "none"]
        for name, value, default in (
            ("model", self.model, None),
            ("router", self.router, None),
            ("concurrency", self.concurrency, CONCURRENCY),
            ("program", self.program, PROGRAM),
            ("max-turns", self.max_turns, None),
        ):
            if value != default:
                words += [f"--{name}", str(value)]
        words += words_of(self.screens, SCREENS)
        return shlex.join(words)


def evaluate(
    episodes: Annotated[
        int, typer.Option(min=1, max=HELD_OUT, help="Episodes a task: seeds 0 to N-1.")
    ] = 100,
    tasks: Annotated[
        str | None,
        typer.Option(help="MiniWoB++ tasks, by commas. (default: all it is trained for)"),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Path of a model. (default: the bundled one)")
    ] = None,
    router: Annotated[
        str | None, typer.Option(help="Use this running router and start nothing.")
    ] = None,
    concurrency: Annotated[
        int, typer.Option(min=1, max=64, help="Episodes at once.")
    ] = CONCURRENCY,
    policy: Policy = SCREENS.policy,
    cell: Cell = None,
    positions: PositionsOption = SCREENS.positions,
    vision_context: Context = SCREENS.vision_context,
    preset: PresetOption = None,
    pruning: PruningOption = None,
    eviction: EvictionOption = None,
    program: Annotated[
        str, typer.Option(help="Program to run: a registered name, or the path of its file.")
    ] = PROGRAM,
    max_turns: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Most turns. (default: the scenario's)")
    ] = None,
    baselines: Annotated[
        str, typer.Option(help="Who else plays the same episodes: random, oracle; or none.")
    ] = ",".join(BASELINES),
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
    out_file: Annotated[
        Path | None,
        typer.Option("--out", help="Write figures and episodes as JSON; resumable by --resume."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with what an earlier call left beside --out.")
    ] = False,
    readme: Annotated[
        Path | None, typer.Option(help="Write the table between the marks of this file.")
    ] = None,
) -> None:
    """Play held-out episodes with the model and two baselines; show how many succeed.

    Exit code 0: all were played; 1: an error, or episodes that were broken off by one.
    """
    from agentserve.cli.nano_evaluate_run import Found, make_report, run_evaluation
    from agentserve.nano.tasks import TRAINED

    options = EvaluateOptions(
        episodes=episodes,
        tasks=_names(tasks) if tasks is not None else TRAINED,
        players=_players(baselines),
        model=model,
        router=router,
        concurrency=concurrency,
        screens=screen_policy(policy, cell, positions, vision_context, preset, pruning, eviction),
        program=program,
        max_turns=max_turns,
        as_json=as_json,
        out=out_file,
        readme=readme,
        resume=resume,
    )
    _check(options)
    found = Found()
    try:
        run_until_signal(run_evaluation(options, found))
    except (KeyboardInterrupt, AgentServeError):
        if found.conditions is not None and found.episodes:
            _tell(options, make_report(options, found))
        if options.log is not None and options.log.exists():
            err.print(f"{len(found.episodes)} episodes are kept; --resume goes on with them")
        raise
    report = make_report(options, found)
    _tell(options, report)
    _keep(options, report)
    if not report.complete:
        raise typer.Exit(1)


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _players(baselines: str) -> tuple[PlayerName, ...]:
    """All players, in the order of their columns. Raises InvalidRequest for an unknown one."""
    names = () if baselines == "none" else _names(baselines)
    unknown = [name for name in names if name not in BASELINES]
    if unknown:
        raise InvalidRequest(
            f"--baselines: {unknown[0]!r} is none", hint=f"known: {', '.join(BASELINES)}, or none"
        )
    return tuple(player for player in PLAYERS if player == "trained" or player in names)


def _check(options: EvaluateOptions) -> None:
    """Everything that would be a pity to find out at the end, or in a thousandth episode."""
    from agentserve.browser.scenarios import load_scenario
    from agentserve.nano.evaluate.log import check_new
    from agentserve.nano.evaluate.tables import insert
    from agentserve.nano.oracles import TASKS

    if not options.tasks:
        raise InvalidRequest("--tasks names no task")
    for task in options.tasks:
        load_scenario(f"miniwob/{task}")
    missing = [task for task in options.tasks if task not in TASKS]
    if missing and "oracle" in options.players:
        raise InvalidRequest(
            f"no oracle for {', '.join(missing)}", hint="leave it out by --baselines random"
        )
    if options.router is not None and (options.model or options.program.endswith(".py")):
        raise InvalidRequest(
            "--router does not go with --model, nor with the path of a program",
            hint="the router's worker brings the model; name a program that it runs",
        )
    if options.resume and options.out is None:
        raise InvalidRequest("--resume needs --out", hint="the episodes are kept beside that file")
    if options.out is not None and not options.out.parent.is_dir():
        raise InvalidRequest(f"--out: there is no folder {options.out.parent}")
    if options.log is not None and not options.resume:
        check_new(options.log)
    if options.readme is not None:
        insert(_text(options.readme), "")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidRequest(f"cannot read {path}: {error.strerror or error}") from error


def _tell(options: EvaluateOptions, report: Report) -> None:
    from agentserve.nano.evaluate.tables import rich_table, verdict

    if options.as_json:
        out.print_json(report.model_dump_json(exclude={"episodes"}))
        return
    out.print(rich_table(report.scores, f"{report.conditions.model}, {options.screens.policy}"))
    out.print(f"{verdict(report.scores)}; run {report.scores.run}")
    if report.scores.errors:
        message = next(one.message for one in report.episodes if one.end == "error")
        err.print(f"[yellow]{report.scores.errors} episodes were broken off[/]: {escape(message)}")


def _keep(options: EvaluateOptions, report: Report) -> None:
    """Write the files. A log with broken off episodes stays: --resume plays them once more."""
    from agentserve.nano.evaluate.report import write_report
    from agentserve.nano.evaluate.tables import insert, markdown

    if options.out is not None:
        write_report(options.out, report)
        if report.complete and options.log is not None:
            options.log.unlink(missing_ok=True)
    if options.readme is not None and report.complete:
        text = insert(_text(options.readme), markdown(report))
        options.readme.write_text(text, encoding="utf-8")
