"""The router: sessions as REST resources, pinned to the workers that hold their KV cache.

``run_router(config, host, port)`` serves it; ``create_app(config)`` is the ASGI application.
"""

from agentserve.router.app import create_app
from agentserve.router.server import run_router

__all__ = ["create_app", "run_router"]
