"""One process of a training: ``python -m agentserve.nano.train CONFIG``, started by launch.py."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from agentserve.nano.train.loop import TrainConfig, train

if __name__ == "__main__":
    fields = json.loads(sys.argv[1])
    fields |= {name: Path(fields[name]) for name in ("data", "out")}
    train(TrainConfig(**fields))
