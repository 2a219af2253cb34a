"""``/v1/programs``: what sessions can run."""

from __future__ import annotations

from fastapi import APIRouter

from agentserve.core.hosting import ProgramList
from agentserve.router.api.deps import Parts, documented

router = APIRouter(prefix="/v1/programs", tags=["programs"])


@router.get("", responses=documented("host_lost"))
async def list_programs(parts: Parts) -> ProgramList:
    """The registered programs, and the files that are none with the reason."""
    return await parts.hosts.programs()
