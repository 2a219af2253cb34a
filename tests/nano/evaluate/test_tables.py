from __future__ import annotations

import io
from datetime import UTC, datetime

import pytest
from rich.console import Console

from agentserve.core.errors import InvalidRequest
from agentserve.nano.evaluate.report import Report
from agentserve.nano.evaluate.scores import reckon
from agentserve.nano.evaluate.tables import BEGIN, END, insert, markdown, rich_table, verdict

TASKS = ("click-test", "login-user")


@pytest.fixture
def report(conditions, episode) -> Report:
    episodes = [episode(seed, True, turn_ms=[40.0]) for seed in range(20)]
    episodes += [
        episode(seed, seed > 4, task="login-user", turns=5, turn_ms=[500.0, 700.0])
        for seed in range(20)
    ]
    for task in TASKS:
        episodes += [episode(seed, seed == 7, task=task, player="random") for seed in range(20)]
    episodes += [episode(seed, True, player="oracle") for seed in range(20)]
    return Report(
        command="agentserve nano evaluate --episodes 20",
        commit="0123456789abcdef0123+",
        conditions=conditions,
        device="cpu",
        cpus=2,
        concurrency=4,
        seeds=list(range(20)),
        ended_at=datetime(2026, 1, 1, tzinfo=UTC),
        complete=True,
        scores=reckon(conditions, TASKS, episodes),
        episodes=episodes,
    )


def test_the_markdown_has_a_row_a_task_and_says_how_to_repeat_it(report: Report) -> None:
    table, paragraph = markdown(report).split("\n\n")
    assert table.splitlines() == [
        "| task | successes | rate | 95 % interval | turns | median turn | random | oracle |",
        "| --- | --: | --: | --: | --: | --: | --: | --: |",
        "| click-test | 20/20 | 100 % | 84–100 % | 1.0 | 40 ms | 5 % (1–24 %) | 100 % (84–100 %) |",
        "| login-user | 15/20 | 75 % | 53–89 % | 5.0 | 600 ms | 5 % (1–24 %) |   |",
        "| mean |   | 87.5 % |   |   |   | 5 % | 100 % |",
    ]
    assert paragraph.startswith("Mean success 87.5 %, 1 of 2 tasks at 95 % or more. Run `")
    assert f"Run `{report.scores.run}`: `agentserve nano evaluate --episodes 20`" in paragraph
    assert "commit `0123456789ab`, weights `aaaaaaaaaaaa`, seeds 0 to 19 of each" in paragraph
    assert "with 4 episodes at once on 2 cores (cpu)" in paragraph
    assert "Not complete" not in paragraph


def test_a_report_with_gaps_says_so(report: Report) -> None:
    assert "**Not complete** (0 broken" in markdown(report.model_copy(update={"complete": False}))


def test_baselines_alone_have_no_model_columns(report: Report, conditions, episode) -> None:
    scores = reckon(conditions, TASKS, [episode(player="random"), episode(player="oracle")])
    head = markdown(report.model_copy(update={"scores": scores})).splitlines()[0]
    assert head == "| task | random | oracle |"
    assert verdict(scores) == "the trained model has played no episode"


def test_the_terminal_shows_the_same_cells(report: Report) -> None:
    console = Console(file=io.StringIO(), width=140)
    console.print(rich_table(report.scores, "nano, current"))
    shown = console.file.getvalue()
    assert "nano, current" in shown
    for line in markdown(report).split("\n\n")[0].splitlines():
        if not line.startswith("| ---"):
            for cell in filter(None, (cell.strip() for cell in line.split("|"))):
                assert cell in shown


def test_the_block_replaces_what_stood_between_the_marks() -> None:
    text = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    new = insert(text, "| new |")
    assert new == f"before\n{BEGIN}\n| new |\n{END}\nafter\n"
    assert insert(new, "| new |") == new


@pytest.mark.parametrize(
    "text",
    ["", f"{BEGIN}\n", f"{END}\n{BEGIN}\n", f"{BEGIN}\n{END}\n{BEGIN}\n{END}\n"],
    ids=["none", "no end", "reversed", "twice"],
)
def test_a_file_without_its_two_marks_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="nano-evaluation:begin"):
        insert(text, "x")
