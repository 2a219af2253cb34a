"""The bundled tiny model of the Qwen2.5-VL architecture: built here, never downloaded."""

from agentserve.nano.store import nano_path

__all__ = ["nano_path"]
