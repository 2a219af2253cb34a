"""Collects screens of MiniWoB++ with what is on them and what an expert would do next.

A shard is ``<name>.pack`` (PNGs, one after the other) and ``<name>.jsonl`` (one record a screen).
"""

from agentserve.nano.collect.shards import Shards, read_shards

__all__ = ["Shards", "read_shards"]
