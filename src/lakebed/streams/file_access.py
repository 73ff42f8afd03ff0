"""Credential vending for remote segments and KV snapshots (ADR 39).

Clients get temporary credentials to read the folders of the tables that they may read. Each table is authorized by
itself: a caller with permission on all streams may still be denied one table. The server reads for clients that get no
credentials, so no request has to be refused.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from lakebed.core.access import Principal
from lakebed.core.clock import Clock
from lakebed.core.errors import LakebedError
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.governance.delegation.vending import plain_text
from lakebed.objects.model import Caller
from lakebed.storage.credentials import CredentialProvider, Credentials
from lakebed.storage.credentials.sts import AssumedRole, TokenService

from .authorization import StreamAuthorizer, StreamOperation
from .log.remote.manifest import LogLocation
from .seam import TableBucket
from .table import StreamTable
from .tables import StreamTables

__all__ = [
    "CREDENTIAL_SECONDS",
    "SNAPSHOTS_FOLDER",
    "CredentialVendor",
    "FileAccess",
    "FileGrant",
    "FileLocation",
    "RoleCredentials",
    "read_policy",
]

CREDENTIAL_SECONDS: Final = 900
"""Lifetime of credentials: the shortest that STS grants. They outlive a revoked permission."""

MAX_POLICY_CHARS: Final = 2048
"""The largest session policy."""

_ROLE_SOURCE: Final = "role of streams"

SNAPSHOTS_FOLDER: Final = "kv"
"""The folder of KV snapshots in the folder of all streams."""

_NEVER_MS: Final = 1 << 62
_EXPIRY_MARGIN_MS: Final = 30_000
"""Credentials with less of their lifetime left are not used."""

_INVALID_CHARACTERS: Final = re.compile(r"[^\w+=,.@-]", re.ASCII)


@dataclass(frozen=True, slots=True)
class FileLocation:
    """Where clients find stream files in the object store."""

    address: str
    """Prepended to a key: `s3://BUCKET`, with the prefix of the object store if it has one."""

    bucket: str
    folder: str
    """The folder of all streams in the bucket."""

    region: str
    endpoint: str | None
    """None: AWS."""

    path_style: bool
    partition: str = "aws"
    """The AWS partition of ARNs."""


@dataclass(frozen=True, slots=True)
class FileGrant:
    """Permission for a client to read files itself."""

    tables: frozenset[int] | None
    """The tables; None: all."""

    until_ms: int = _NEVER_MS
    credentials: Credentials | None = None
    """None: the client has its own access, or reads nothing."""

    @property
    def is_temporary(self) -> bool:
        """Whether it expires and has to be renewed."""
        return self.until_ms < _NEVER_MS

    def is_expired(self, now_ms: int) -> bool:
        """Whether it is expired, or about to: the client has renewed it, or is about to."""
        return now_ms >= self.until_ms - _EXPIRY_MARGIN_MS

    def covers(self, table_id: int) -> bool:
        """Whether it permits reading files of the table."""
        return self.tables is None or table_id in self.tables


class CredentialVendor(Protocol):
    """Vends temporary credentials for the object store."""

    async def make(self, name: str, policy: str) -> Credentials:
        """Credentials limited to `policy`, for `CREDENTIAL_SECONDS`; `name` is the session name.

        May raise any LakebedError, of an external service.
        """
        ...


class RoleCredentials:
    """Vends credentials of a role that the server's own credentials may assume. Implements `CredentialVendor`."""

    def __init__(self, role: str, service: TokenService, own: CredentialProvider) -> None:
        self._role = role
        self._service = service
        self._own = own

    async def make(self, name: str, policy: str) -> Credentials:
        """Credentials with the permissions common to the role and `policy`. Raises as the token service does."""
        request = AssumedRole(self._role, name, CREDENTIAL_SECONDS, policy=policy)
        return await self._service.assume_role(await self._own.credentials(), request, _ROLE_SOURCE)

    async def close(self) -> None:
        """Close the source of the server's own credentials."""
        await self._own.close()


@dataclass(frozen=True, slots=True)
class _Scope:
    tables: frozenset[int] | None
    policy: str


@dataclass(frozen=True, slots=True)
class _VendedGrant:
    grant: FileGrant
    stale_ms: int
    """When a new grant is vended: credentials that are vended late still have some of their lifetime left."""


class FileAccess:
    """Grants callers access to files. Without a location there is none, and without a vendor no credentials."""

    def __init__(
        self,
        clock: Clock,
        authorizer: StreamAuthorizer,
        tables: StreamTables,
        location: FileLocation | None = None,
        vendor: CredentialVendor | None = None,
    ) -> None:
        self._clock = clock
        self._authorizer = authorizer
        self._tables = tables
        self._location = location
        self._vendor = vendor
        self._vended: dict[tuple[str, str], _VendedGrant] = {}
        self._pending: dict[tuple[str, str], asyncio.Task[_VendedGrant]] = {}

    @property
    def location(self) -> FileLocation | None:
        """Where files are, if clients read them."""
        return self._location

    async def grant(self, caller: Caller, *, sends_tokens: bool = True) -> FileGrant | None:
        """The caller's grant; None if clients read no files here.

        Temporary credentials have a session token; a client that does not send it (`sends_tokens`) gets none.
        Error codes: SECURITY_TOKEN if credentials cannot be vended now.
        """
        if self._location is None:
            return None
        if self._vendor is None:
            return FileGrant(None)
        scope = await self._scope(caller, self._location) if sends_tokens else None
        if scope is None:
            return FileGrant(frozenset(), self._clock.now_ms() + CREDENTIAL_SECONDS * 1000)
        return await self._credentials(caller.principal, scope, self._vendor)

    async def covers(self, caller: Caller, table_id: int, *, sends_tokens: bool = True) -> bool:
        """Whether the caller would be granted files of the table."""
        if self._location is None or self._vendor is None:
            return self._location is not None
        scope = await self._scope(caller, self._location) if sends_tokens else None
        return scope is not None and (scope.tables is None or table_id in scope.tables)

    async def _scope(self, caller: Caller, location: FileLocation) -> _Scope | None:
        """The tables that the caller may read, with a policy; None if there are none, or too many for a policy."""
        principal = caller.principal
        every = await self._tables.all()
        readable = [
            table for table in every if await self._authorizer.is_authorized(caller, StreamOperation.READ, *table.path)
        ]
        if principal.is_root and len(readable) == len(every):
            # Covers tables that are created during the lifetime of the credentials.
            return _Scope(None, read_policy(location, [f"{location.folder}/"]))
        if not readable:
            return None
        policy = read_policy(location, [folder for table in readable for folder in _folders(location, table)])
        if len(policy) > MAX_POLICY_CHARS:
            return None
        return _Scope(frozenset(table.id for table in readable), policy)

    async def _credentials(self, principal: Principal, scope: _Scope, vendor: CredentialVendor) -> FileGrant:
        """Credentials for a scope, reused while they are fresh."""
        key = (principal.caller_arn, scope.policy)
        vended = self._vended.get(key)
        if vended is not None and self._clock.now_ms() < vended.stale_ms:
            return vended.grant
        task = self._pending.get(key)
        if task is None:
            task = asyncio.create_task(self._make(key, scope, vendor))
            self._pending[key] = task
            task.add_done_callback(lambda done: self._settle(key, done))
        try:
            # A cancelled caller does not cancel the request of others that wait for it.
            return (await asyncio.shield(task)).grant
        except LakebedError as error:
            raise FlussError(ErrorCode.SECURITY_TOKEN, f"file credentials are unavailable. reason={error}") from error

    async def _make(self, key: tuple[str, str], scope: _Scope, vendor: CredentialVendor) -> _VendedGrant:
        now_ms = self._clock.now_ms()
        credentials = await vendor.make(_session_name(key[0]), scope.policy)
        ends_ms = now_ms + CREDENTIAL_SECONDS * 1000 if credentials.expires_ms is None else credentials.expires_ms
        vended = _VendedGrant(FileGrant(scope.tables, ends_ms, credentials), now_ms + max(ends_ms - now_ms, 0) // 2)
        self._vended = {cached: each for cached, each in self._vended.items() if now_ms < each.stale_ms}
        self._vended[key] = vended
        return vended

    def _settle(self, key: tuple[str, str], task: asyncio.Task[_VendedGrant]) -> None:
        del self._pending[key]
        if not task.cancelled():
            task.exception()  # retrieved, though all waiters may be cancelled


def read_policy(location: FileLocation, folders: Iterable[str]) -> str:
    """A session policy for reading these folders, each with a trailing slash."""
    before = f"arn:{location.partition}:s3:::{plain_text(location.bucket)}/"
    statement = {
        "Effect": "Allow",
        "Action": "s3:GetObject",
        "Resource": [f"{before}{plain_text(folder)}*" for folder in folders],
    }
    return msgspec.json.encode({"Version": "2012-10-17", "Statement": [statement]}).decode()


def _folders(location: FileLocation, table: StreamTable) -> Sequence[str]:
    """The folders of a table in the object store."""
    # A bucket's folder lies in the table's. That ends with the table's id, so it is no prefix of another table's.
    bucket = LogLocation(TableBucket(table.id, None, 0), *table.path).folder
    logs = f"{location.folder}/{bucket.rpartition('/')[0]}/"
    return [logs, f"{location.folder}/{SNAPSHOTS_FOLDER}/{table.id}/"] if table.has_primary_key else [logs]


def _session_name(arn: str) -> str:
    """The session name, as shown in the object store's audit log."""
    return _INVALID_CHARACTERS.sub("-", arn.rpartition(":")[2])[-64:].rjust(2, "-")
