"""Records without pause in forked processes and kills each with SIGKILL at a random moment.

    python killed_recorder.py FOLDER COUNT

Run by test_record.py in a process of its own, because it forks. Process N records run-N and says
over a pipe whenever a call has returned. Prints, as JSON, what each had been promised: -1 nothing,
0 that the run is recorded, n that n steps are.
"""

import asyncio
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from replay.replay_builders import make_png, make_session, make_step

from agentserve.replay import Recorder


async def record_until_killed(folder: Path, number: int, told: int) -> None:
    recorder = Recorder(folder, id=f"run-{number}")
    await recorder.started(make_session(), "http://127.0.0.1/")
    os.write(told, b".")
    for index in range(10_000):
        png = make_png(index)
        await recorder.screenshot(index, png)
        await recorder.step(make_step(index, png))
        os.write(told, b".")


def promised_to_killed(folder: Path, number: int, chance: random.Random) -> int:
    """Start a process and kill it a moment after a random number of its promises."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        asyncio.run(record_until_killed(folder, number, tell))
        os._exit(1)
    os.close(tell)
    promises = sum(len(os.read(told, 1)) for _ in range(chance.randrange(5)))
    time.sleep(chance.uniform(0, 0.03))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        sys.exit(f"process {number} ended before it was killed: {status}")
    promises += len(os.read(told, 10_000))
    os.close(told)
    return promises - 1


def main() -> None:
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    chance = random.Random(20251129)
    print(json.dumps([promised_to_killed(folder, number, chance) for number in range(count)]))


main()
