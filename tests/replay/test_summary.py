from pathlib import Path

from replay.report_builders import FAILURE, POINT, SCREEN, make_report, make_side, make_step_report
from rich.console import Console

from agentserve.core.sessions import InvalidAction
from agentserve.replay.compare.difference import Difference
from agentserve.replay.summary import replay_summary, replays_summary

OUTCOME = Difference(
    comparer="outcome", field="outcome.success", recorded="success", replayed="failure"
)


def shown(renderable, width: int = 130) -> list[str]:
    console = Console(width=width, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(renderable)
    return [line.rstrip() for line in capture.get().splitlines()]


def test_one_replay_is_a_tree_of_its_steps():
    report = make_report(
        make_step_report(0),
        make_step_report(1, POINT, SCREEN, replayed=make_side(cached=0)),
        differences=[OUTCOME],
        notes=["the model is another one"],
        settings={"tolerance": "12 px"},
    )
    assert shown(replay_summary(report, page=Path("out/replay.html"))) == [
        "clean  model, navigator: Click on the “Ok” button.",
        "├── ✓ step 0  click 40 60  prompt 200, cached 100, visual 80",
        "├── ✗ step 1  click 40 60  prompt 200, cached 100 → 0, visual 80",
        "│   ├── action.point: [40, 60] → [90, 60]",
        "│   └── screen: 2.00% of the screen differs (752 px in 1 region)",
        "│       └── screen.region 100x32 at (12, 8.5): 80% of it differs",
        "├── outcome.success: success → failure",
        "└── note: the model is another one",
        "✗ 1 of 2 steps the same, 1 different: 1 action, 1 screen, 1 outcome (tolerance 12 px)  "
        "prompt 400, cached 200 → 100, visual 160",
        "see them side by side: out/replay.html",
        "what is as it should be now: the same command with --update",
        "what an action or a run comes to is never accepted: if it is as it should be now, record "
        "the session anew",
    ]


def test_many_replays_show_what_differs_and_count_the_rest():
    lines = shown(
        replays_summary(
            [
                make_report(make_step_report(0), make_step_report(1)),
                make_report(make_step_report(0), make_step_report(1, POINT), name="moved"),
                make_report(make_step_report(0), error=FAILURE, name="lost"),
            ]
        )
    )
    assert lines[:3] == [
        "3 replays",
        "├── ✓ clean  model, navigator: Click on the “Ok” button.",
        "├── ✗ moved  model, navigator: Click on the “Ok” button.",
    ]
    assert "│   ├── ✗ step 1  click 40 60  prompt 200, cached 100, visual 80" in lines
    assert not any("step 0" in line for line in lines), "what is the same is not listed"
    assert any("error, step 1: the worker died (worker_lost)" in line for line in lines)
    assert "✗ 1 of 3 replays the same, 1 different, 1 error: 1 action" in lines
    assert lines[-1] == "what is as it should be now: the same command with --update"


def test_nothing_is_to_be_done_when_all_is_the_same():
    lines = shown(replays_summary([make_report(make_step_report(0))] * 2))
    assert lines[-1] == "✓ 2 of 2 replays the same" and len(lines) == 4


def test_what_cannot_be_accepted_is_not_offered():
    """What else can be done about it is said, also when an update was made already."""
    network = Difference(comparer="network", field="network.answer")
    for left, update, words in (
        (OUTCOME, "--update", "what an action or a run comes to is never accepted"),
        (network, None, "what pages fetch is never accepted"),
    ):
        report = make_report(make_step_report(0), differences=[left])
        for told in (
            shown(replay_summary(report, update=update)),
            shown(replays_summary([report], update=update)),
        ):
            assert not any("--update" in line for line in told)
            assert words in told[-1] and "record the session anew" in " ".join(told)


def test_steps_that_no_model_decided_have_no_counts():
    person = make_side(usage=None)
    step = make_step_report(0, recorded=person, replayed=person)
    lines = shown(replay_summary(make_report(step, mode="browser", program="", task="")))
    assert lines == ["clean  browser", "└── ✓ step 0  click 40 60", lines[-1]]
    assert lines[-1] == "✓ 1 of 1 steps the same, 0 different"


def test_no_text_can_steer_a_terminal_or_rich():
    evil = "\x1b[2J\x07[red]bold[/red]\u202e\nsecond" + "x" * 3000
    hostile = Difference(
        comparer="action", field=evil, recorded=evil, replayed={evil: [evil]}, message=evil
    )
    silent = make_side(action=None, invalid=InvalidAction(text=evil, reason=evil))
    report = make_report(
        make_step_report(0, hostile, SCREEN.model_copy(update={"parts": [hostile]})),
        make_step_report(1, recorded=silent),
        differences=[hostile],
        name=evil,
        program=evil,
        task=evil,
        notes=[evil],
        settings={evil: evil},
        error=FAILURE.model_copy(update={"message": evil, "hint": evil, "code": evil[:20]}),
    )
    for summary in (replay_summary(report), replays_summary([report])):
        text = "\n".join(shown(summary))
        assert not any(sign in text for sign in "\x1b\x07\u202e")
        assert "[red]bold[/red]" in text and not any(
            line.startswith("second") for line in text.splitlines()
        )


def test_of_many_regions_the_first_are_listed():
    many = SCREEN.model_copy(update={"parts": SCREEN.parts * 21})
    lines = shown(replay_summary(make_report(make_step_report(0, many))))
    assert sum("screen.region" in line for line in lines) == 8
    assert any(line.endswith("… and 13 more") for line in lines)


def test_of_a_long_replay_what_is_the_same_is_counted():
    steps = [make_step_report(index, *([POINT] if index == 7 else [])) for index in range(200)]
    lines = shown(replay_summary(make_report(*steps)))
    assert [line for line in lines if " step " in line] == [
        "├── ✗ step 7  click 40 60  prompt 200, cached 100, visual 80"
    ]
    assert "└── ✓ 199 steps the same" in lines


def test_no_line_of_a_summary_is_a_command_of_github_s():
    """A page's text cannot place one at the begin of a line, wherever it is wrapped."""
    parted = 0
    for length in range(60):
        note = "a" * length + " ::error title=x::y ##[error]z" * 5
        report = make_report(make_step_report(0), notes=[note], name="::set-output name=a::b")
        lines = shown(replay_summary(report), width=60)
        assert not any(line.lstrip().startswith("::") or "##[" in line for line in lines)
        parted += sum(line.lstrip().startswith(":\N{WORD JOINER}:") for line in lines)
    assert parted > 60, "the name alone begins a line each time"


def test_a_long_error_is_told_whole_where_nothing_is_wrapped():
    told = FAILURE.model_copy(update={"message": "word " * 38 + "end"})
    console = Console(width=120, soft_wrap=True, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(replay_summary(make_report(make_step_report(0), error=told)))
    assert "end (worker_lost)" in capture.get()


def test_an_error_of_what_was_replayed_is_not_before_the_first_step():
    error = FAILURE.model_copy(update={"index": None})
    (line,) = [one for one in shown(replay_summary(make_report(make_step_report(0), error=error)))
               if "error" in one]  # fmt: skip
    assert line.startswith(f"└── error: {error.message}")
    assert any("error, before the first step: " in one
               for one in shown(replay_summary(make_report(error=error))))  # fmt: skip


def test_an_option_that_was_given_or_has_another_name_is_told_so():
    report = make_report(make_step_report(1, POINT))
    assert (
        "with --agentserve-update"
        in shown(replay_summary(report, update="--agentserve-update"))[-1]
    )
    assert not any("--update" in line for line in shown(replays_summary([report], update=None)))
