"""``agentserve nano evaluate`` as it is called, with the real stack where it plays."""

from __future__ import annotations

import asyncio
import io
import json
import signal
import subprocess
from pathlib import Path

import pytest
from e2e.helpers import AGENTSERVE, command, start
from rich.console import Console

from agentserve.cli.nano_evaluate import EvaluateOptions, _players
from agentserve.cli.nano_evaluate_view import EvaluationView
from agentserve.cli.stack import Stack
from agentserve.core.errors import InvalidRequest
from agentserve.core.sessions import ScreenPolicy
from agentserve.nano.evaluate.episodes import plan
from agentserve.nano.evaluate.report import Report
from agentserve.nano.evaluate.tables import BEGIN, END

EVALUATE = ("nano", "evaluate")


def options(**changes) -> EvaluateOptions:
    fields = {
        "episodes": 100,
        "tasks": ("click-test", "click-tab"),
        "players": ("trained", "random", "oracle"),
        "model": None,
        "router": None,
        "concurrency": 4,
        "screens": ScreenPolicy(policy="current"),
        "program": "navigator",
        "max_turns": None,
        "as_json": False,
        "out": None,
        "readme": None,
        "resume": False,
    }
    return EvaluateOptions(**(fields | changes))


def test_the_command_to_repeat_it_names_what_matters_and_no_written_file() -> None:
    assert options(out=Path("x.json"), readme=Path("README.md"), resume=True).command == (
        "agentserve nano evaluate --episodes 100 --tasks click-test,click-tab"
    )
    assert options(
        players=("trained", "oracle"),
        model="a b",
        screens=ScreenPolicy(policy="full"),
        max_turns=3,
        concurrency=1,
    ).command == (
        "agentserve nano evaluate --episodes 100 --tasks click-test,click-tab --baselines oracle "
        "--model 'a b' --concurrency 1 --max-turns 3 --policy full"
    )


def test_the_model_always_plays() -> None:
    assert _players("none") == ("trained",)
    assert _players("oracle, random") == ("trained", "random", "oracle")
    with pytest.raises(InvalidRequest, match="'trained'"):
        _players("trained")


def test_elsewhere_than_on_a_terminal_a_task_is_told_when_it_is_through(episode) -> None:
    console = Console(file=io.StringIO(), width=100)
    jobs = plan(("click-test",), 2, ("trained", "oracle"))
    with EvaluationView(console, jobs, [episode(0, False)]) as view:
        view.add(episode(1, True))
        view.add(episode(0, True, player="oracle"))
        assert console.file.getvalue() == ""
        view.add(episode(1, True, player="oracle"))
    assert console.file.getvalue() == "click-test: trained 1/2, oracle 2/2\n"


def test_a_terminal_shows_a_bar_with_the_running_success(episode) -> None:
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    with EvaluationView(console, plan(("click-test",), 2, ("trained",)), []) as view:
        view.add(episode(0, True))
    assert "trained 1/1" in console.file.getvalue()
    assert "1/2" in console.file.getvalue()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--tasks", "click-tset"], "click-test"),
        (["--tasks", " , "], "names no task"),
        (["--baselines", "best"], "'best'"),
        (["--tasks", "book-flight"], "--baselines random"),
        (["--router", "http://127.0.0.1:1", "--model", "x"], "--router does not go with --model"),
        (["--resume"], "--resume needs --out"),
        (["--out", "nowhere/x.json"], "no folder nowhere"),
        (["--out", "kept.json"], "unfinished evaluation"),
        (["--readme", "nowhere.md"], "cannot read nowhere.md"),
        (["--readme", "plain.md"], "nano-evaluation:begin"),
        (["--router", "http://127.0.0.1:1"], "cannot reach the router"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_told_before_anything_is_played(
    tmp_path: Path, arguments: list[str], words: str
) -> None:
    (tmp_path / "plain.md").write_text("no marks\n")
    (tmp_path / "kept.json.partial").touch()
    done = subprocess.run(
        [*AGENTSERVE, *EVALUATE, *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1, done.stderr
    assert words in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert {path.name for path in tmp_path.iterdir()} == {"plain.md", "kept.json.partial"}


async def test_one_episode_through_the_whole_product(stack: Stack, tmp_path: Path) -> None:
    out, readme = tmp_path / "out.json", tmp_path / "README.md"
    readme.write_text(f"before\n{BEGIN}\n{END}\nafter\n")
    code, stdout, stderr = await command(
        stack, *EVALUATE, "--router", stack.router, "--tasks", "click-test", "--episodes", "1",
        "--max-turns", "2", "--out", str(out), "--readme", str(readme), "--json",
    )  # fmt: skip
    assert code == 0, stderr
    assert "click-test: trained" in stderr
    report = Report.model_validate_json(out.read_text())
    assert json.loads(stdout) == json.loads(report.model_dump_json(exclude={"episodes"}))
    assert report.complete
    assert {one.player for one in report.episodes} == {"trained", "random", "oracle"}
    (trained,) = [one for one in report.episodes if one.player == "trained"]
    assert 1 <= trained.turns <= 2
    assert len(trained.turn_ms) == trained.turns
    assert trained.usage.visual_tokens >= 80
    assert report.scores.tasks[0].players["oracle"].successes == 1
    conditions = report.conditions
    assert conditions.model == "nano"
    assert len(conditions.model_sha256) == len(conditions.program_sha256) == 64
    assert {"sglang", "chromium", "miniwob", "agentserve"} <= set(conditions.versions)
    text = readme.read_text()
    assert text.startswith(f"before\n{BEGIN}\n| task |")
    assert f"Run `{report.scores.run}`" in text
    assert text.endswith(f"{END}\nafter\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md", "out.json"]


async def test_an_interrupted_evaluation_goes_on_where_it_stopped(
    stack: Stack, tmp_path: Path
) -> None:
    out = tmp_path / "out.json"
    arguments = (
        *EVALUATE, "--router", stack.router, "--tasks", "click-test,click-tab", "--max-turns", "1",
        "--baselines", "oracle", "--out", str(out), "--concurrency", "1",
    )  # fmt: skip
    process = await start(stack, *arguments, "--episodes", "50")
    log = tmp_path / "out.json.partial"
    for _ in range(1200):
        if log.exists() and log.read_bytes().count(b"\n") >= 3:
            break
        await asyncio.sleep(0.1)
    process.send_signal(signal.SIGINT)
    stdout, stderr = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 130, stderr.decode()
    assert "click-test" in stdout.decode(), "what there is, is shown"
    assert "--resume goes on" in stderr.decode()
    assert not out.exists()
    kept = [json.loads(line) for line in log.read_text().splitlines()[1:]]
    assert len(kept) >= 2

    code, stdout, stderr = await command(stack, *arguments, "--episodes", "1", "--resume")
    assert code == 0, stderr
    report = Report.model_validate_json(out.read_text())
    assert report.complete
    assert len(report.episodes) == 4
    first = [one.model_dump(mode="json") for one in report.episodes[:2]]
    assert first == kept[:2], "they were not played again"
    assert not log.exists()
