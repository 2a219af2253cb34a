"""The client of the pass-through: requests go to a worker as they are, answers come as they are.

Neither httpx, which serves everything else, nor aiohttp: both take headers and bodies apart, and
copy what is only to be handed on (tests/results/bench/router-profile.md has what that costs). HTTP
itself is read by httptools, as uvicorn has it.
"""

from agentserve.router.forwarding.connection import Headers, Lost, Pieces, Silent
from agentserve.router.forwarding.forwarder import Forwarded, Forwarder

__all__ = ["Forwarded", "Forwarder", "Headers", "Lost", "Pieces", "Silent"]
