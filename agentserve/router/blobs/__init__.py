"""Screenshots, and the pictures made of them, by their SHA-256."""

from agentserve.router.blobs.store import BlobStore

__all__ = ["BlobStore"]
