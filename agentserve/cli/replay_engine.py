"""``agentserve replay --mode engine``: two workers, or two settings of one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from agentserve.cli.serve import bundled_programs
from agentserve.cli.stack import StackOptions, local_worker
from agentserve.cli.stage import Stage

if TYPE_CHECKING:
    from agentserve.bench.worker import BenchWorker
    from agentserve.core.families import Family
    from agentserve.core.sessions import ScreenPolicy
    from agentserve.regression.find import Found
    from agentserve.replay import Recording, Replayed


async def replay_engines(
    found: list[Found], worker: str | None, against: str | None, setting: str | None
) -> list[Replayed]:
    """Raises InvalidRequest for a setting that is none, and what replay_engine raises."""
    from agentserve.lang.registry import load_registry
    from agentserve.regression.engine import EngineSide, replay_engine
    from agentserve.replay import read_recording

    recordings = [(one.name, read_recording(one.path)) for one in found]
    programs = load_registry([bundled_programs()])
    replayed = []
    with Stage() as stage:
        async with _opened(worker, stage) as one, _opened(against or one.url, stage) as other:
            steps = stage.task("turns", sum(len(recording.steps) for _, recording in recordings))
            for name, recording in recordings:
                screens = _screens(recording, setting, other.family)
                first = EngineSide(one.url, one)
                second = EngineSide(_name(other.url, setting), other, screens)
                result = await asyncio.to_thread(
                    replay_engine,
                    first,
                    second,
                    recording,
                    programs,
                    on_step=lambda _: steps(),
                )
                report = result.report.model_copy(update={"name": name})
                replayed.append(type(result)(report, recording))
    return replayed


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


def _name(url: str, setting: str | None) -> str:
    return url if setting is None else f"{url}, {setting}"


def _screens(recording: Recording, setting: str | None, family: Family) -> ScreenPolicy | None:
    """The recorded session's, with another compression."""
    from agentserve.bench.settings import settings_of
    from agentserve.core.sessions import ScreenPolicy

    if setting is None:
        return None
    chosen = next(
        (one for one in settings_of(setting, [0.5], family) if one.name == setting),
        settings_of("off", [], family)[0],
    ).compression
    run = recording.agent()
    fields = run.session.model_dump(include=set(ScreenPolicy.model_fields))
    changes = {"preset": None, "pruning": chosen.pruning, "eviction": chosen.eviction}
    return ScreenPolicy.model_validate(fields | changes)
