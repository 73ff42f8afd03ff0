"""Who reads files of streams in the byte store itself, and by which keys (ADR 39).

Keys are temporary, made for one caller, and open the folders of the tables that it may read, for reading. Each table is
asked about by itself: who may read all of streams may still be denied one of them. Whoever is given no keys is read for
by the home, so nobody has to be refused.
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
"""How long keys are good: the least that there is. They outlive a right that was taken away."""

MAX_POLICY_CHARS: Final = 2048
"""The largest policy that a session can have."""

_ROLE_SOURCE: Final = "role of streams"

SNAPSHOTS_FOLDER: Final = "kv"
"""That of all snapshots of keys, in the folder of all streams."""

_FOR_EVER_MS: Final = 1 << 62
_NEARLY_OVER_MS: Final = 30_000
"""Nobody is sent with keys that have less of their life left."""

_STRANGE: Final = re.compile(r"[^\w+=,.@-]", re.ASCII)


@dataclass(frozen=True, slots=True)
class FileLocation:
    """Where clients find files of streams."""

    address: str
    """What they put before a key: `s3://BUCKET`, with the prefix of the byte store if it has one."""

    bucket: str
    folder: str
    """That of all streams in the bucket."""

    region: str
    endpoint: str | None
    """None: AWS."""

    path_style: bool
    partition: str = "aws"
    """Which of AWS's worlds its names are of."""


@dataclass(frozen=True, slots=True)
class FileGrant:
    """What somebody reads itself."""

    tables: frozenset[int] | None
    """Files of which tables; None: of all."""

    until_ms: int = _FOR_EVER_MS
    keys: Credentials | None = None
    """None: none were given. It has access of its own, or reads nothing."""

    @property
    def is_temporary(self) -> bool:
        """Whether it has an end, before which another is to be asked for."""
        return self.until_ms < _FOR_EVER_MS

    def is_over(self, now_ms: int) -> bool:
        """Whether it is of no use any more, or soon: whoever holds it has another, or is about to ask for one."""
        return now_ms >= self.until_ms - _NEARLY_OVER_MS

    def opens(self, table_id: int) -> bool:
        """Whether files of the table can be read with it."""
        return self.tables is None or table_id in self.tables


class CredentialVendor(Protocol):
    """Makes temporary keys to the byte store."""

    async def make(self, name: str, policy: str) -> Credentials:
        """Keys that may do what `policy` allows and no more, for `CREDENTIAL_SECONDS`; `name` is whom they are for.

        Raises LakebedError of any kind: somebody else is asked.
        """
        ...


class RoleCredentials:
    """Credentials of a role that the server's own credentials may assume. Implements `CredentialVendor`."""

    def __init__(self, role: str, service: TokenService, own: CredentialProvider) -> None:
        self._role = role
        self._service = service
        self._own = own

    async def make(self, name: str, policy: str) -> Credentials:
        """Credentials that have the permissions of both the role and `policy`. Raises as the token service does."""
        asked = AssumedRole(self._role, name, CREDENTIAL_SECONDS, policy=policy)
        return await self._service.assume_role(await self._own.credentials(), asked, _ROLE_SOURCE)

    async def close(self) -> None:
        """Close the source of the server's own credentials."""
        await self._own.close()


@dataclass(frozen=True, slots=True)
class _Scope:
    tables: frozenset[int] | None
    policy: str


@dataclass(frozen=True, slots=True)
class _Made:
    grant: FileGrant
    stale_ms: int
    """From when on others are made: who gets these late has to have some of their life left."""


class FileAccess:
    """Grants files to callers. Without a place there are none to be had, and without a maker no keys to them."""

    def __init__(
        self,
        clock: Clock,
        authorizer: StreamAuthorizer,
        tables: StreamTables,
        place: FileLocation | None = None,
        maker: CredentialVendor | None = None,
    ) -> None:
        self._clock = clock
        self._authorizer = authorizer
        self._tables = tables
        self._place = place
        self._maker = maker
        self._made: dict[tuple[str, str], _Made] = {}
        self._under_way: dict[tuple[str, str], asyncio.Task[_Made]] = {}

    @property
    def place(self) -> FileLocation | None:
        """Where files are, if somebody reads them itself."""
        return self._place

    async def grant(self, caller: Caller, *, takes_tokens: bool = True) -> FileGrant | None:
        """What the caller reads itself from now on; None where nobody does.

        Temporary keys have a session token; who does not send it (`takes_tokens`) gets none. Error codes:
        SECURITY_TOKEN if they cannot be made now.
        """
        if self._place is None:
            return None
        if self._maker is None:
            return FileGrant(None)
        scope = await self._scope(caller, self._place) if takes_tokens else None
        if scope is None:
            return FileGrant(frozenset(), self._clock.now_ms() + CREDENTIAL_SECONDS * 1000)
        return await self._keys(caller.principal, scope, self._maker)

    async def reaches(self, caller: Caller, table_id: int, *, takes_tokens: bool = True) -> bool:
        """Whether the caller would be granted files of the table."""
        if self._place is None or self._maker is None:
            return self._place is not None
        scope = await self._scope(caller, self._place) if takes_tokens else None
        return scope is not None and (scope.tables is None or table_id in scope.tables)

    async def _scope(self, caller: Caller, place: FileLocation) -> _Scope | None:
        """What the caller may read, with the policy for it; None if that is nothing, or more than a policy can say."""
        principal = caller.principal
        every = await self._tables.all()
        readable = [
            table for table in every if await self._authorizer.is_authorized(caller, StreamOperation.READ, *table.path)
        ]
        if principal.is_root and len(readable) == len(every):
            # Tables that come while the keys last, too.
            return _Scope(None, read_policy(place, [f"{place.folder}/"]))
        if not readable:
            return None
        policy = read_policy(place, [folder for table in readable for folder in _folders(place, table)])
        if len(policy) > MAX_POLICY_CHARS:
            return None
        return _Scope(frozenset(table.id for table in readable), policy)

    async def _keys(self, principal: Principal, scope: _Scope, maker: CredentialVendor) -> FileGrant:
        """Keys for that, those that were made before while they are young."""
        wanted = (principal.caller_arn, scope.policy)
        made = self._made.get(wanted)
        if made is not None and self._clock.now_ms() < made.stale_ms:
            return made.grant
        task = self._under_way.get(wanted)
        if task is None:
            task = asyncio.create_task(self._make(wanted, scope, maker))
            self._under_way[wanted] = task
            task.add_done_callback(lambda done: self._settle(wanted, done))
        try:
            # Whoever leaves takes nothing from the others who wait for the same.
            return (await asyncio.shield(task)).grant
        except LakebedError as error:
            raise FlussError(ErrorCode.SECURITY_TOKEN, f"no keys can be had to files now. reason={error}") from error

    async def _make(self, wanted: tuple[str, str], scope: _Scope, maker: CredentialVendor) -> _Made:
        now_ms = self._clock.now_ms()
        keys = await maker.make(_session_name(wanted[0]), scope.policy)
        ends_ms = now_ms + CREDENTIAL_SECONDS * 1000 if keys.expires_ms is None else keys.expires_ms
        made = _Made(FileGrant(scope.tables, ends_ms, keys), now_ms + max(ends_ms - now_ms, 0) // 2)
        self._made = {key: each for key, each in self._made.items() if now_ms < each.stale_ms}
        self._made[wanted] = made
        return made

    def _settle(self, wanted: tuple[str, str], task: asyncio.Task[_Made]) -> None:
        del self._under_way[wanted]
        if not task.cancelled():
            task.exception()  # looked at, though all who waited for it may have left


def read_policy(place: FileLocation, folders: Iterable[str]) -> str:
    """A session policy that allows reading what is in these folders, each of which ends in a slash."""
    before = f"arn:{place.partition}:s3:::{plain_text(place.bucket)}/"
    statement = {
        "Effect": "Allow",
        "Action": "s3:GetObject",
        "Resource": [f"{before}{plain_text(folder)}*" for folder in folders],
    }
    return msgspec.json.encode({"Version": "2012-10-17", "Statement": [statement]}).decode()


def _folders(place: FileLocation, table: StreamTable) -> Sequence[str]:
    """All that the byte store has of a table."""
    # That of one of its buckets lies in that of the table, whose name ends with its id: no other table's begins so.
    bucket = LogLocation(TableBucket(table.id, None, 0), *table.path).folder
    logs = f"{place.folder}/{bucket.rpartition('/')[0]}/"
    return [logs, f"{place.folder}/{SNAPSHOTS_FOLDER}/{table.id}/"] if table.has_primary_key else [logs]


def _session_name(arn: str) -> str:
    """Whom keys are for, as the byte store's own records show it."""
    return _STRANGE.sub("-", arn.rpartition(":")[2])[-64:].rjust(2, "-")
