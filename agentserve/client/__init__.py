"""The one HTTP client of the router."""

from agentserve.client.router import STREAM_TIMEOUT_S, TURN_TIMEOUT_S, RouterClient

__all__ = ["STREAM_TIMEOUT_S", "TURN_TIMEOUT_S", "RouterClient"]
