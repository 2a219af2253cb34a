"""``agentserve replay --mode engine``: two workers, or two settings of one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from agentserve.cli.serve import bundled_programs
from agentserve.cli.stack import StackOptions, local_worker
from agentserve.cli.stage import Stage
from agentserve.core.errors import BadScreenshot, InvalidRequest, RecordingError, UnknownProgram

if TYPE_CHECKING:
    from agentserve.bench.settings import Setting
    from agentserve.bench.worker import BenchWorker
    from agentserve.core.sessions import ScreenPolicy
    from agentserve.lang.registry import Registry
    from agentserve.regression.engine import EngineSide
    from agentserve.regression.find import Found, ReadRecording
    from agentserve.replay import Recording, Replayed
    from agentserve.replay.results import OnStep


async def replay_engines(
    found: list[Found],
    worker: str | None,
    against: str | None,
    setting: str | None,
    done: Callable[[Replayed], None],
) -> None:
    """``done`` is told each replay; of a recording that is damaged, that no agent made, whose
    program is unknown or whose session cannot be set so, what is wrong. No worker is started for
    those alone. Raises InvalidRequest for a setting that is none, and what the workers' clients
    raise."""
    from agentserve.bench.settings import setting_of
    from agentserve.lang.registry import load_registry
    from agentserve.regression.engine import EngineSide
    from agentserve.regression.find import read_found
    from agentserve.regression.refusing import check_engine
    from agentserve.regression.replaying import failed, unread

    chosen = None if setting is None else setting_of(setting)
    recordings = read_found(found)
    programs = load_registry([bundled_programs()])
    for name, error in recordings.unread.items():
        done(unread("engine", name, error))
    fit: list[ReadRecording] = []
    for each in recordings.read:
        try:
            check_engine(each.recording, programs, chosen and chosen.compression)
            fit.append(each)
        except (RecordingError, UnknownProgram) as error:
            done(failed(each.recording, "engine", each.name, error))
    if not fit:
        return
    with Stage() as stage:
        async with _opened(worker, stage) as one, _opened(against or one.url, stage) as other:
            steps = stage.task("turns", sum(len(each.recording.taken) for each in fit))
            for each in fit:
                sides = (EngineSide(one.url, one), EngineSide(_name(other.url, chosen), other))
                done(await _replayed(each, sides, chosen, programs, lambda _: steps()))


async def _replayed(
    found: ReadRecording,
    sides: tuple[EngineSide, EngineSide],
    setting: Setting | None,
    programs: Registry,
    on_step: OnStep,
) -> Replayed:
    from agentserve.regression.engine import replay_engine
    from agentserve.regression.replaying import failed

    first, second = sides
    try:
        second = replace(second, screens=_screens(found.recording, setting))
        result = await asyncio.to_thread(
            replay_engine, first, second, found.recording, programs, on_step=on_step
        )
    except (BadScreenshot, InvalidRequest, RecordingError, UnknownProgram) as error:
        return failed(found.recording, "engine", found.name, error)
    return replace(result, report=result.report.model_copy(update={"name": found.name}))


@asynccontextmanager
async def _opened(url: str | None, stage: Stage) -> AsyncIterator[BenchWorker]:
    from agentserve.bench.worker import BenchWorker

    if url is None:
        async with local_worker(StackOptions(), stage.say) as started, _opened(started, stage) as w:
            yield w
        return
    worker = await asyncio.to_thread(BenchWorker, url, logprobs=True)
    try:
        yield worker
    finally:
        worker.close()


def _name(url: str, setting: Setting | None) -> str:
    return url if setting is None else f"{url}, {setting.name}"


def _screens(recording: Recording, setting: Setting | None) -> ScreenPolicy | None:
    """The recorded session's, with another compression. Raises RecordingError."""
    from agentserve.core.sessions import ScreenPolicy

    if setting is None:
        return None
    chosen = setting.compression
    run = recording.agent()
    fields = run.session.model_dump(include=set(ScreenPolicy.model_fields))
    changes = {"preset": None, "pruning": chosen.pruning, "eviction": chosen.eviction}
    return ScreenPolicy.model_validate(fields | changes)
