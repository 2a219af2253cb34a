"""Recordings for other tools: a module a format, each ``give(recording) -> Given``."""
