"""agentserve: an SGLang-based serving frontend for screenshot agents."""

__version__ = "0.1.0"
