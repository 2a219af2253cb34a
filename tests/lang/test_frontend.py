from __future__ import annotations

import subprocess
import sys


def run(script: str) -> str:
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_host_needs_no_torch() -> None:
    out = run(
        "import sys\n"
        "from agentserve.lang.frontend import import_frontend\n"
        "import_frontend()\n"
        "import agentserve.lang.service, agentserve.lang.registry, agentserve.lang.turns\n"
        "from agentserve.lang import action, screen\n"
        "print([m for m in ('torch', 'transformers', 'sglang.srt.utils') if m in sys.modules])\n"
    )
    assert out == "[]\n"


def test_the_stand_in_leaves_nothing_behind() -> None:
    out = run(
        "from importlib.util import find_spec\n"
        "from agentserve.lang.frontend import import_frontend\n"
        "import_frontend()\n"
        "print(find_spec('sglang.srt.utils').origin)\n"
    )
    assert out.endswith("sglang/srt/utils/__init__.py\n")
