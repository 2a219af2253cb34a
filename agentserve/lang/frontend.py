"""Importing SGLang's frontend without its server half, for the program host.

``import sglang`` first loads ``sglang.srt.utils`` to patch transformers, and with it torch and
transformers: 780 MB and 6 s of CPU time, for the server's sake. The frontend itself needs neither:
without them it takes 65 MB and half a second, and a killed host is back at once.
"""

from __future__ import annotations

import sys
from types import ModuleType

_PATCHES = "sglang.srt.utils.hf_transformers_patches"


def import_frontend() -> None:
    """Import sglang's frontend. Does nothing when sglang is loaded already.

    While it loads, a stand-in takes the place of the patches that it would apply. Afterwards
    nothing of it is left: a program that wants ``sglang.srt`` gets the real one.
    """
    if "sglang" in sys.modules:
        return
    package, patches = ModuleType("sglang.srt.utils"), ModuleType(_PATCHES)
    package.__path__ = []  # type: ignore[attr-defined]
    patches.apply_all = lambda: None  # type: ignore[attr-defined]
    stand_ins = {module.__name__: module for module in (package, patches)}
    sys.modules.update(stand_ins)
    try:
        import sglang  # noqa: F401
    finally:
        for name in stand_ins:
            del sys.modules[name]
