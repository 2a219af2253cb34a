"""Blobs in an object store (S3 and what speaks like it, Google's, Azure's).

The only place that sees obstore. Credentials, region and endpoint are what obstore itself finds in
the environment (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL …), and no message of a store is passed on: a
refused signature is told with the key it was made for.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    NotSupportedError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import from_url

from agentserve.core.blobs import blob_path
from agentserve.core.config import BLOB_SCHEMES
from agentserve.core.errors import InvalidRequest, StorageFailed

CALL_TIMEOUT_S = 30.0
"""Longest wait for one call, with all its attempts."""
ATTEMPT_TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 3.0
RETRIES = 3
RETRIED_FOR_S = 10.0
RETRY_AFTER_S = 5.0
ID = re.compile(r"[0-9a-f]{32}")
_ID = "id"
_STATUS = re.compile(r"status code: (\d{3})")


class ObjectStore:
    """Objects below one prefix, named as the files of a blob folder. Every call may raise
    StorageFailed."""

    def __init__(self, url: str) -> None:
        """Connects to nothing. Raises InvalidRequest for a URL that is none, StorageFailed when the
        environment lacks what the store needs."""
        self.where = _checked(url)
        try:
            self._store = from_url(
                url,
                client_options={
                    "timeout": timedelta(seconds=ATTEMPT_TIMEOUT_S),
                    "connect_timeout": timedelta(seconds=CONNECT_TIMEOUT_S),
                    "allow_http": True,  # an endpoint without TLS is the operator's own choice
                },
                retry_config={
                    "max_retries": RETRIES,
                    "retry_timeout": timedelta(seconds=RETRIED_FOR_S),
                },
            )
        except BaseError as error:
            raise self._failed(error) from None

    async def id(self) -> str:
        """The name that the first router to come has given this place. So a store that does not
        let the router read and write is found out at the start."""
        name = secrets.token_hex(16).encode()
        with suppress(AlreadyExistsError):
            async with self._reaching():
                try:
                    await obstore.put_async(self._store, _ID, name, mode="create")
                except NotSupportedError:
                    if await self._read(_ID) is None:
                        await obstore.put_async(self._store, _ID, name)
        async with self._reaching():
            found = (await self._read(_ID) or b"").decode("latin-1")
        if not ID.fullmatch(found):  # it becomes a folder's name
            raise self._told(
                f"has an object `{_ID}` that is not agentserve's",
                "choose a prefix that nobody else writes to",
            )
        return found

    async def has(self, tenant: str, sha256: str) -> bool:
        async with self._reaching():
            try:
                await obstore.head_async(self._store, _path(tenant, sha256))
            except FileNotFoundError:
                return False
        return True

    async def read(self, tenant: str, sha256: str) -> bytes | None:
        async with self._reaching():
            return await self._read(_path(tenant, sha256))

    async def put(self, tenant: str, sha256: str, data: bytes | Path) -> None:
        """Bytes, or those of a file."""
        async with self._reaching():
            await obstore.put_async(self._store, _path(tenant, sha256), data)

    async def remove(self, tenant: str, sha256: str) -> None:
        async with self._reaching():
            with suppress(FileNotFoundError):
                await obstore.delete_async(self._store, _path(tenant, sha256))

    async def _read(self, path: str) -> bytes | None:
        try:
            answer = await obstore.get_async(self._store, path)
        except FileNotFoundError:
            return None
        return bytes(await answer.bytes_async())

    @asynccontextmanager
    async def _reaching(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                yield
        except AlreadyExistsError:
            raise
        except TimeoutError:
            raise self._told("does not answer in time", "ask again in a moment") from None
        except (BaseError, OSError) as error:
            raise self._failed(error) from None

    def _failed(self, error: Exception) -> StorageFailed:
        """ "from None", always: a traceback in a log would show what the store has said."""
        status = _STATUS.search(str(error))
        what = f"{type(error).__name__}{f', HTTP status {status[1]}' if status else ''}"
        if isinstance(error, (PermissionDeniedError, UnauthenticatedError)):
            return self._told(
                f"does not let the router in ({what})",
                "correct the credentials in the router's environment, or their rights to get, put "
                "and delete objects there",
            )
        if isinstance(error, FileNotFoundError):
            return self._told(f"is not there ({what})", "create the bucket, or correct --blobs")
        return self._told(
            f"cannot be used ({what})",
            "look whether it can be reached, and at endpoint, region and credentials in the "
            "router's environment; then ask again",
        )

    def _told(self, what: str, hint: str) -> StorageFailed:
        message = f"the object store {self.where} {what}"
        return StorageFailed(message, hint=hint, retry_after=RETRY_AFTER_S)


def _path(tenant: str, sha256: str) -> str:
    return blob_path(Path(), tenant, sha256).as_posix()


def _checked(url: str) -> str:
    """What of a URL may be shown: all of it, since one with a secret in it is refused."""
    parts = urlsplit(url)
    plain = not (parts.query or parts.fragment or "@" in parts.netloc)
    if not url.startswith(BLOB_SCHEMES) or not parts.netloc or not plain:
        raise InvalidRequest(
            "the URL of the blobs cannot be used",
            hint=f"it is SCHEME://BUCKET/PREFIX and begins with {', '.join(BLOB_SCHEMES)}; "
            "credentials belong into the environment",
        )
    return url.rstrip("/")
