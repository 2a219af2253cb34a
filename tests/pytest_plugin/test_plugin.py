"""The pytest plugin, run as its users run it: in a pytest of its own."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import zipfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpcore  # noqa: F401 - pytester forgets modules that a test is the first to import, and
import pytest  # httpx would wait for the errors of an httpcore that is imported no more
from router.rig import Rig, running_rig

from agentserve.core.errors import NoWorker
from agentserve.pytest_plugin.collect import ReplayDiffers
from agentserve.pytest_plugin.reporting import annotations, found, markdown
from agentserve.pytest_plugin.sharing import Offer, shared_router
from agentserve.replay.bundle.packing import pack
from agentserve.replay.compare.difference import Difference
from agentserve.replay.results import ReplayFailure, ReplayReport, Side, StepReport, Totals

pytest_plugins = ["pytester"]
RECORDINGS = Path(__file__).parents[2] / "scenarios/miniwob/recordings"


@pytest.fixture
def folder(pytester: pytest.Pytester) -> Path:
    """A folder of a user's with two recordings, and pytest as it comes."""
    pytester.makeini("[pytest]\n")
    for name in ("click-button-1", "focus-text-0"):
        shutil.copytree(RECORDINGS / name, pytester.path / "gui" / name)
    return pytester.path / "gui"


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with running_rig(tmp_path / "rig") as running:
        yield running


Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.delenv("AGENTSERVE_ROUTER", raising=False)
    return lambda *arguments: pytester.runpytest_subprocess(*arguments, timeout=240)


def test_nothing_is_collected_unless_it_is_asked_for(folder: Path, run: Run) -> None:
    assert run("--collect-only", folder).ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_each_recording_is_a_test_with_a_good_name(folder: Path, run: Run) -> None:
    result = run("--agentserve", "--collect-only", "-q", "gui")
    result.stdout.fnmatch_lines(
        ["gui/click-button-1/meta.json::model", "gui/focus-text-0/meta.json::model"]
    )
    result = run(
        "--agentserve", "--agentserve-mode", "browser,full", "--collect-only", "-q", "gui",
        "-k", "focus",
    )  # fmt: skip
    result.stdout.fnmatch_lines(
        ["gui/focus-text-0/meta.json::browser", "gui/focus-text-0/meta.json::full"]
    )
    result.stdout.no_fnmatch_line("*click-button*")


def test_the_ids_that_are_printed_can_be_run(folder: Path, run: Run) -> None:
    told = run("--agentserve", "--agentserve-mode", "browser,full", "--collect-only", "-q", "gui")
    ids = [line for line in told.stdout.lines if line.endswith("::browser")]
    assert len(ids) == 2
    one = run("--agentserve", "--agentserve-mode", "browser,full", "--collect-only", "-q", *ids[1:])
    assert [line for line in one.stdout.lines if "::" in line] == ids[1:]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--agentserve-mode", "video"), "'video' is none of model, browser, full"),
        (("--agentserve-html", "nowhere/page.html"), "--agentserve-html: there is no folder"),
        (("--agentserve-html", "gui"), "--agentserve-html: gui is a folder"),
        (("--agentserve-also",), "--agentserve-also is of --agentserve-update"),
        (("--agentserve-on-miss", "live"), "add --agentserve-network recorded"),
        (("--agentserve-mode", "model", "--agentserve-network", "recorded"), "does nothing"),
        (("--agentserve-mode", "model", "--agentserve-secret", "PW"), "does nothing"),
        (("--agentserve-secret", "NOT_THERE"), "no such environment variable"),
    ],
)
def test_a_mistake_is_told_once(folder: Path, run: Run, arguments: tuple, words: str) -> None:
    result = run("--agentserve", *arguments, "gui")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    told = [line for line in result.outlines + result.errlines if line.strip()]
    assert len([line for line in told if words in line]) == 1
    assert not any("Traceback" in line for line in told)


def person(recording: Path) -> None:
    """Make it look like a person's."""
    meta = json.loads((recording / "meta.json").read_text())
    meta |= {"session": None, "source": "person"}
    (recording / "meta.json").write_text(json.dumps(meta))


def test_what_no_agent_did_is_skipped_with_a_reason(folder: Path, run: Run) -> None:
    person(folder / "focus-text-0")
    result = run("--agentserve", "--agentserve-mode", "full", "-rs", "gui/focus-text-0")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*a person's recording: no agent acted*"])
    assert result.ret == 0


def test_a_zip_of_something_else_is_told_of_when_it_is_named(folder: Path, run: Run) -> None:
    with zipfile.ZipFile(folder / "trace.zip", "w") as archive:
        archive.writestr("trace.trace", "{}")
    pack(folder / "focus-text-0", folder / "packed.zip")
    found = run("--agentserve", "--collect-only", "-q", "gui")
    assert found.ret == 0
    assert "gui/packed.zip::model" in found.stdout.lines
    found.stdout.no_fnmatch_line("*trace.zip*")
    named = run("--agentserve", "--collect-only", "-q", "gui/trace.zip")
    named.stdout.fnmatch_lines(["*trace.zip: meta.json is missing*"])


def test_secrets_and_recorded_answers_reach_the_replay(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recording with a secret, of which no answers were recorded."""
    shutil.copytree(RECORDINGS / "enter-text-0", folder / "enter-text-0")
    steps = folder / "enter-text-0/steps.jsonl"
    text = steps.read_text().replace('"Agustina"', '"{{secret:NAME_OF_IT}}"')
    steps.write_text(re.sub(r'"aria":"[0-9a-f]+"', '"aria":null', text))  # they have it in clear
    arguments = ("--agentserve", "--agentserve-mode", "browser", "gui/enter-text-0")
    missing = run(*arguments)
    missing.assert_outcomes(failed=1)
    missing.stdout.fnmatch_lines(["*of pytest: --agentserve-secret NAME_OF_IT*"])
    monkeypatch.setenv("NAME_OF_IT", "Agustina")
    run(*arguments, "--agentserve-secret", "NAME_OF_IT").assert_outcomes(passed=1)
    recorded = run(
        *arguments, "--agentserve-secret", "NAME_OF_IT", "--agentserve-network", "recorded"
    )
    recorded.assert_outcomes(failed=1)
    recorded.stdout.fnmatch_lines(["*what its pages fetched was not recorded*"])


def test_what_cannot_be_accepted_fails_with_update_as_well(folder: Path, run: Run) -> None:
    """The page's own check says another thing than it said: an outcome is to be reached."""
    (folder / "focus-text-0/expect.json").write_text(
        '{"schema_version": 1, "outcome": {"expression": "1", "equals": 2}}'
    )
    before = (folder / "focus-text-0/expect.json").read_text()
    result = run("--agentserve", "--agentserve-mode", "browser", "--agentserve-update", "gui")
    result.assert_outcomes(passed=1, failed=1)
    assert (folder / "focus-text-0/expect.json").read_text() == before
    assert not (folder / "click-button-1/expect.json").exists()
    result.stdout.no_fnmatch_line("*the same command with*")


def test_a_damaged_recording_is_an_error_with_its_entry(folder: Path, run: Run) -> None:
    (folder / "focus-text-0/meta.json").write_text("{")
    result = run("--agentserve", "gui", "--collect-only")
    result.stdout.fnmatch_lines(["*focus-text-0: meta.json: not JSON*"])
    assert result.ret == pytest.ExitCode.INTERRUPTED


def test_replays_in_a_browser_pass_in_several_processes(folder: Path, run: Run) -> None:
    page = folder.parent / "page.html"
    result = run(
        "--agentserve", "--agentserve-mode", "browser", "-n", "2",
        "--agentserve-html", page, "--junitxml", "results.xml", "gui",
    )  # fmt: skip
    result.assert_outcomes(passed=2)
    text = page.read_text()
    assert "click-button-1" in text and "focus-text-0" in text
    results = (folder.parent / "results.xml").read_text()
    assert '<property name="steps" value="2"' in results


async def test_what_differs_fails_with_a_tree_and_can_be_accepted(
    folder: Path, run: Run, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rig's workers answer by a script: always another action than the recorded one."""
    for path in folder.glob("*/meta.json"):
        path.write_text(path.read_text().replace('"navigator"', '"scripted"'))
    monkeypatch.setenv("AGENTSERVE_ROUTER", rig.server.url)
    arguments = ("--agentserve", "gui")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(folder / "summary.md"))
    result = await asyncio.to_thread(run, *arguments)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*action.point*", "::error title=gui/click-button-1 (model)::*"])
    result.stdout.fnmatch_lines(["*the same command with --agentserve-update*"])
    assert any(
        line.startswith("FAILED gui/click-button-1/meta.json::model - step 0: action.")
        for line in result.outlines
    )
    assert "| gui/focus-text-0 | model | 1 | 1 | ✗ |" in (folder / "summary.md").read_text()
    accepted = await asyncio.to_thread(run, *arguments, "--agentserve-update")
    accepted.assert_outcomes(passed=2)
    assert (folder / "focus-text-0/expect.json").exists()
    again = await asyncio.to_thread(run, *arguments)
    again.assert_outcomes(passed=2)


async def test_the_fixtures_of_tests_beside_recordings(
    pytester: pytest.Pytester, run: Run, rig: Rig
) -> None:
    pytester.makepyfile(
        test_own="""
        import io
        from PIL import Image

        def test_a_turn(session, router, worker):
            assert router.startswith("http://") and worker.startswith("http://")
            made = session.create(
                program="scripted", task="press", viewport={"width": 160, "height": 210}, scale=1.4
            )
            out = io.BytesIO()
            Image.new("RGB", (224, 280)).save(out, "PNG")
            assert session.turn(made, out.getvalue()).turn == 0
        """
    )
    result = await asyncio.to_thread(run, "--agentserve-router", rig.server.url)
    result.assert_outcomes(passed=1)
    assert {one.status for one in (await rig.client.sessions()).sessions} == {"released"}


CONFTEST = """
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
import agentserve.pytest_plugin.service as service

@asynccontextmanager
async def started(options):
    with Path("starts").open("a") as file:
        file.write("started ")
    yield SimpleNamespace(router="http://127.0.0.1:9")
    with Path("starts").open("a") as file:
        file.write("stopped ")

service.local_stack = started
"""


@pytest.mark.parametrize("wanted", [True, False])
def test_processes_share_one_router_and_start_none_that_no_test_needs(
    pytester: pytest.Pytester, run: Run, wanted: bool
) -> None:
    pytester.makeconftest(CONFTEST)
    fixture, told = ("router", "router") if wanted else ("", "'http://127.0.0.1:9'")
    body = f"""
        import time
        import pytest

        @pytest.mark.parametrize("number", range(6))
        def test_it(number{"," if fixture else ""} {fixture}):
            time.sleep(0.2)
            assert {told} == "http://127.0.0.1:9"
    """
    pytester.makepyfile(test_own=body)
    result = run("-n", "2")
    result.assert_outcomes(passed=6)
    starts = pytester.path / "starts"
    assert (starts.read_text().split() if wanted else starts.exists()) == (
        ["started", "stopped"] if wanted else False
    )


def test_whoever_asks_is_told_why_there_is_no_router() -> None:
    def start() -> str:
        raise NoWorker("no memory")

    offer = Offer(start)
    try:
        for _ in range(2):
            with pytest.raises(NoWorker, match="cannot start a router: no memory"):
                shared_router(offer.folder)
    finally:
        offer.close()
    with pytest.raises(NoWorker, match="offers no router any more"):
        shared_router(offer.folder)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ([Difference(comparer="action", field="action.point", recorded=[1, 2], replayed=[3, 4])],
         "step 0: action.point: [1, 2] → [3, 4]"),
        ([Difference(comparer="screen", field="screen", message="a lot\n::error::of it")],
         "step 0: screen: a lot·::error::of it"),
    ],
)  # fmt: skip
def test_a_failure_begins_with_what_differs(more: list[Difference], words: str) -> None:
    """pytest's own summary cuts it where the terminal ends."""
    differs = ReplayDiffers(report("a/long/name/of/a/recording", *more), updated=False)
    first, second, third, *_ = str(differs).splitlines()
    assert first == words and second == "" and third.startswith("a/long/name/of/a/recording")


def test_a_failure_begins_with_the_error_that_ended_the_replay() -> None:
    error = ReplayFailure(index=3, code="unavailable", message="no\nrouter", hint="start one")
    ended = report("own").model_copy(update={"error": error, "same": False})
    assert found(ended) == ["step 3: no·router (unavailable)"]
    many = [Difference(comparer="aria", field=f"aria.{n}", message="x") for n in range(13)]
    (line,) = annotations([report("own", *many)])
    assert line.endswith("step 0: aria.9: x%0A… and 3 more")
    unfinished = report("own").model_copy(update={"same": False})
    assert found(unfinished) == ["not every step was replayed and compared"]


def report(name: str, *differences: Difference) -> ReplayReport:
    step = StepReport(
        index=0, recorded=Side(), replayed=Side(), same=not differences,
        differences=list(differences),
    )  # fmt: skip
    usage = {"recorded_usage": {}, "replayed_usage": {}}
    different = bool(differences)
    return ReplayReport(
        recording="r", name=name, mode="model", program="p", task="t", complete=True, steps=[step],
        same=not different,
        totals=Totals.model_validate(
            {"recorded_steps": 1, "replayed_steps": 1, "same": 1 - different,
             "different": different} | usage
        ),
    )  # fmt: skip


def test_what_github_reads_cannot_be_steered_from_a_page() -> None:
    hostile = Difference(comparer="screen", field="screen", message="a\n::set-output name=x::y%0A")
    name = "gui/a,file=b::c|<b>"
    (line,) = annotations([report(name, hostile, hostile), report("same")])
    assert "\n" not in line
    assert line.startswith("::error title=gui/a%2Cfile=b%3A%3Cc|") or "%3A%3A" in line
    assert (
        "a·::set-output name=x::y%250A%0Astep 0: " in line
        and line.count("::") - line.partition("::")[2].count("::") == 1
    )
    table = markdown([report(name, hostile)])
    assert table.count("\n") == 3 and "<b>" not in table
