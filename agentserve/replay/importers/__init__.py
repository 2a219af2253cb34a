"""Recordings of other tools, taken over: a module a format, each ``take(data) -> Taken``."""
