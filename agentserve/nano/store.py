"""Where the nano model lies: its trained weights are part of the package."""

from __future__ import annotations

from pathlib import Path

from agentserve.core.errors import EngineMismatch

WEIGHTS = Path(__file__).parent / "weights"


def nano_path() -> Path:
    """The checkpoint's folder, which SGLang and transformers load.

    Raises EngineMismatch when this installation came without it.
    """
    if not (WEIGHTS / "model.safetensors").is_file():
        raise EngineMismatch(
            "this installation of agentserve came without the nano model's weights",
            hint="install agentserve from its wheel or a whole checkout",
        )
    return WEIGHTS
