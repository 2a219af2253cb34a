"""What speaks against a replay is said before anything is started for it."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agentserve.cli import app
from agentserve.cli.replay_engine import replay_engines
from agentserve.cli.replay_options import Asked
from agentserve.core.errors import InvalidRequest
from agentserve.regression.find import Found, find_recordings
from agentserve.regression.options import ReplayOptions
from agentserve.regression.parts import Parts
from agentserve.regression.replaying import replay_one
from agentserve.replay import Replayed, read_recording
from agentserve.replay.results import Mode

BUNDLED = Path(__file__).parents[2] / "scenarios/miniwob/recordings"


def no_router() -> AbstractAsyncContextManager[Any]:
    raise AssertionError("a router was started")


class NoParts(Parts):
    """Nothing can be started here."""

    def __init__(self) -> None:
        super().__init__(no_router)

    async def browser(self) -> Any:
        raise AssertionError("a browser was started")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return Path(shutil.copytree(BUNDLED / "enter-text-0", tmp_path / "own"))


def by_a_person(folder: Path) -> None:
    path = folder / "meta.json"
    meta = json.loads(path.read_text()) | {"session": None, "space": None, "source": "person"}
    path.write_text(json.dumps(meta))


def without_steps(folder: Path) -> None:
    (folder / "steps.jsonl").write_text("")


def with_a_secret(folder: Path) -> None:
    path = folder / "steps.jsonl"
    path.write_text(path.read_text().replace('"Agustina"', '"{{secret:NAME_OF_IT}}"'))


def with_a_picture_changed(folder: Path) -> None:
    last = json.loads((folder / "steps.jsonl").read_text().splitlines()[2])
    picture = folder / f"screenshots/{last['screenshot']}.png"
    picture.write_bytes(picture.read_bytes() + b"more")


def with_an_unknown_step(folder: Path) -> None:
    path = folder / "steps.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[2]["performed"] = {"kind": "unsupported", "what": "a popup"}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def on_an_unknown_scenario(folder: Path) -> None:
    path = folder / "meta.json"
    path.write_text(path.read_text().replace("miniwob/enter-text", "miniwob/no-such-page"))


def as_it_is(folder: Path) -> None:
    pass


@pytest.mark.parametrize(
    ("made", "options", "words"),
    [
        (by_a_person, ReplayOptions("model"), "no agent of agentserve acted here"),
        (by_a_person, ReplayOptions("full"), "no agent of agentserve acted here"),
        (without_steps, ReplayOptions("model"), "it has no steps"),
        (without_steps, ReplayOptions("browser"), "it has no steps"),
        (with_a_secret, ReplayOptions("browser"), "needs the secret NAME_OF_IT"),
        (with_a_picture_changed, ReplayOptions("model"), "not have the hash of its name"),
        (with_a_picture_changed, ReplayOptions("browser"), "not have the hash of its name"),
        (with_an_unknown_step, ReplayOptions("browser"), "step 2 has no equal here: a popup"),
        (on_an_unknown_scenario, ReplayOptions("browser"), "no-such-page"),
        (on_an_unknown_scenario, ReplayOptions("full"), "no-such-page"),
        (as_it_is, ReplayOptions("browser", network="recorded"), "was not recorded"),
    ],
    ids=lambda value: getattr(value, "__name__", None) or getattr(value, "mode", ""),
)
async def test_nothing_is_started_for_a_replay_that_cannot_be(
    own: Path, made: Callable[[Path], None], options: ReplayOptions, words: str
) -> None:
    made(own)
    async with NoParts() as parts:
        replayed = await replay_one(parts, read_recording(own), "own", options)
    error = replayed.report.error
    assert error is not None and words in error.message and error.hint
    assert (replayed.report.name, replayed.report.mode) == ("own", options.mode)
    assert not replayed.report.same


@pytest.mark.parametrize("mode", ["model", "browser", "full"])
async def test_one_that_can_be_is_not_refused(own: Path, mode: Mode) -> None:
    async with NoParts() as parts:
        with pytest.raises(AssertionError, match="was started"):
            await replay_one(parts, read_recording(own), "own", ReplayOptions(mode))


async def test_a_step_that_has_no_equal_is_gone_by_when_that_is_asked_for(own: Path) -> None:
    with_an_unknown_step(own)
    options = ReplayOptions("browser", go_by_unsupported=True)
    async with NoParts() as parts:
        with pytest.raises(AssertionError, match="a browser was started"):
            await replay_one(parts, read_recording(own), "own", options)


@pytest.mark.parametrize(
    ("made", "setting", "words"),
    [
        (by_a_person, None, "no agent of agentserve acted here"),
        (without_steps, None, "it has no steps"),
        (with_a_picture_changed, None, "not have the hash of its name"),
        (as_it_is, "flat:0.5", "has the policy full, which sends whole screens"),
    ],
    ids=["a person's", "no steps", "damaged", "a setting"],
)
def test_no_worker_is_started_to_compare_what_cannot_be(
    own: Path,
    monkeypatch: pytest.MonkeyPatch,
    made: Callable[[Path], None],
    setting: str | None,
    words: str,
) -> None:
    def started(*arguments: Any) -> Any:
        raise AssertionError("a worker was started")

    monkeypatch.setattr("agentserve.cli.replay_engine.local_worker", started)
    made(own)
    done: list[Replayed] = []
    asyncio.run(replay_engines([Found("own", own)], None, None, setting, done.append))
    (replayed,) = done
    assert replayed.report.error is not None and words in replayed.report.error.message
    assert replayed.report.mode == "engine" and replayed.report.error.hint
    fit = find_recordings([BUNDLED / "click-button-1"])
    with pytest.raises(AssertionError, match="a worker was started"):
        asyncio.run(replay_engines([*fit, Found("own", own)], None, None, setting, done.append))


def test_a_router_and_one_of_its_own_are_not_both_used() -> None:
    with pytest.raises(InvalidRequest, match="--local .* does not go with --router"):
        Asked(router="http://127.0.0.1:1", local=True).check()
    arguments = ["run", "--scenario", "miniwob/click-test", "--router", "http://a", "--local"]
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, InvalidRequest), result.output
    assert "does not go with --router" in result.exception.message
