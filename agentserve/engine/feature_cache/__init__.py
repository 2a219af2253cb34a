"""Regions that the vision encoder has seen before: identity → projected embeddings.

Two tiers below SGLang's own device cache: host memory, and a folder that all workers of a host
share and that outlives them. A hit spares the encoder; a loss costs one call of it, so nothing in
here may ever fail a request. Importing the package loads no torch.

``keys``     the identity of a model
``cache``    FeatureCache: what the engine uses
``memory``   tier 1, an LRU bounded in bytes
``folder``   tier 2: entries as files, written in the background, turned off by a bad disk
``entry``    the contents of one file, with its checksum
``files``    names → bytes in a folder, an LRU bounded in bytes across processes
``ledger``   the lock of that folder and the one number all its workers share
``backlog``  the thread that writes, with a bounded queue
"""

from agentserve.engine.feature_cache.cache import FeatureCache, FeatureCacheStats
from agentserve.engine.feature_cache.keys import checkpoint_revision, model_key

__all__ = [
    "FeatureCache",
    "FeatureCacheStats",
    "checkpoint_revision",
    "model_key",
]
