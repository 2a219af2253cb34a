"""Tenants, and the API keys that say who asks.

A tenant is a name. Sessions, blobs, pass-through names, layouts and caches belong to one, and none
sees another's. A router without keys has one tenant, whose name is empty.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from agentserve.core.model import Wire
from agentserve.core.plans import Sha256

NOBODY = ""
"""The tenant of a router without keys."""
TenantId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
_KEY = re.compile(r"ask_([0-9a-f]{12})_([0-9a-f]{64})")


class Role(StrEnum):
    USER = "user"
    """Sessions, blobs and the pass-through, of its own tenant."""
    ADMIN = "admin"
    """The workers as well."""


class KeyLimits(Wire):
    """What a key's tenant may have at once; None: what the router's settings say."""

    running: Annotated[int, Field(ge=1, le=100_000)] | None = None
    queued: Annotated[int, Field(ge=1, le=1_000_000)] | None = None


class ApiKey(Wire):
    """A key as it is stored. The key itself is not: who reads the store cannot use it."""

    id: str
    """Shown in lists and logs; part of the key."""
    sha256: Sha256
    """Of the key's text. It has 256 random bits: nobody finds it by trying, however fast."""
    tenant: TenantId
    role: Role = Role.USER
    name: Annotated[str, StringConstraints(max_length=100)] = ""
    """What it is for."""
    created_at: datetime
    expires_at: datetime | None = None
    limits: KeyLimits = KeyLimits()

    def opens(self, text: str, now: datetime) -> bool:
        """Whether ``text`` is this key, and it is still good."""
        same = hmac.compare_digest(self.sha256, hashlib.sha256(text.encode()).hexdigest())
        return same and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True)
class Caller:
    """Who makes a request."""

    tenant: str = NOBODY
    role: Role = Role.ADMIN
    key_id: str = ""


def new_key(
    tenant: str,
    role: Role = Role.USER,
    *,
    name: str = "",
    expires_at: datetime | None = None,
    limits: KeyLimits | None = None,
) -> tuple[str, ApiKey]:
    """The text of a new key, which nothing keeps, and what is stored of it."""
    key_id = secrets.token_hex(6)
    text = f"ask_{key_id}_{secrets.token_hex(32)}"
    key = ApiKey(
        id=key_id,
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        tenant=tenant,
        role=role,
        name=name,
        created_at=datetime.now(UTC),
        expires_at=expires_at,
        limits=limits or KeyLimits(),
    )
    return text, key


def key_id_of(text: str) -> str | None:
    """The id in a key's text; None when it is no key."""
    found = _KEY.fullmatch(text)
    return found[1] if found else None


def cache_salt(tenant: str) -> str:
    """What keeps a tenant's KV and embeddings apart in a worker's caches (SGLang's ``cache_salt``);
    empty for none. No secret: only routers choose salts."""
    if tenant == NOBODY:
        return ""
    return hashlib.sha256(f"agentserve tenant {tenant}".encode()).hexdigest()[:32]
