"""Durable records of access delegations: vended credentials and signed requests.

By the id of an access key, an administrator finds the principal, table, request and expiry of a delegation. Records are
written in batches within a second, because a commit for each would slow down signing and table loading several times.
A crash may lose the last ones. Their use is traced regardless, because the session token contains principal, table and
request; the trace then reports that the record is missing. Delegation is refused while too many records are pending.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lakebed.core.errors import NotFound, Unavailable
from lakebed.meta.seam import MetaStore, Row, Transaction, Value

from ..credentials.sessions import MAX_DELEGATION_SECONDS

KEPT_SECONDS: Final = 7 * 86_400.0
"""Default retention of records after the delegation's expiry."""

MAX_WAITING: Final = 10_000
"""Most pending records."""

_INSERT_BATCH: Final = 500
_DELETE_BATCH: Final = 1000

_NAMES: Final = (
    "id, kind, request_id, principal, user_id, arn, lasting_key, remote, catalog, namespace, name, table_id, bucket,"
    " directories, writes, method, target, issued_ms, expires_ms"
)
_INSERT_ONCE: Final = (
    f"INSERT INTO delegations ({_NAMES}) VALUES ({', '.join('?' * 19)})"  # noqa: S608 - columns are ours
    " ON CONFLICT (id) DO NOTHING"
)
"""Idempotent, because a commit whose response was lost is retried."""

_SELECT: Final = f"SELECT seq, {_NAMES} FROM delegations"  # noqa: S608 - as above
_FIND: Final = f"{_SELECT} WHERE id = ?"
_OLDEST: Final = "SELECT seq, id, expires_ms FROM delegations ORDER BY seq LIMIT ?"
_DELETE: Final = "DELETE FROM delegations WHERE seq <= ?"
_DELETE_ACCESSES: Final = "DELETE FROM delegated_accesses WHERE delegation = ?"
_USED: Final = (
    "SELECT a.delegation, MAX(a.last_ms), EXISTS (SELECT 1 FROM delegations d WHERE d.id = a.delegation)"
    " FROM delegated_accesses a WHERE a.delegation > ? GROUP BY a.delegation ORDER BY a.delegation LIMIT ?"
)


class DelegationKind(StrEnum):
    """The kind of delegation, in the terms of the Iceberg REST specification."""

    VENDED = "vended-credentials"
    SIGNED = "remote-signing"


@dataclass(frozen=True, slots=True)
class DelegationPurpose:
    """The purpose of a delegation and the request that obtained it."""

    kind: DelegationKind
    request_id: str
    remote: str
    catalog: str
    namespace: str
    """Its levels, joined as in rows."""
    name: str
    method: str = ""
    target: str = ""
    """Of a signature: the signed request's URI."""


@dataclass(frozen=True, slots=True)
class DelegationRecord:
    """Vended credentials or a signature."""

    id: str
    """The access key id. The secret is not stored."""
    purpose: DelegationPurpose
    principal: str
    user_id: str
    arn: str
    """The caller's ARN, of its session if it has one."""
    lasting_key: str
    """The parent key, or the client, of the caller."""
    table_id: str
    bucket: str
    directories: tuple[str, ...]
    writes: bool
    issued_ms: int
    expires_ms: int
    seq: int = 0
    """Its position, once stored."""


@dataclass(frozen=True, slots=True)
class DelegationFilter:
    """Selects delegations. Empty fields match all."""

    principal: str = ""
    request_id: str = ""
    catalog: str = ""
    namespace: str = ""
    """Only with a catalog."""
    name: str = ""
    """Only with a namespace."""

    def terms(self) -> tuple[list[str], list[Value]]:
        """The SQL conditions and their values."""
        terms = {
            "principal": self.principal,
            "request_id": self.request_id,
            "catalog": self.catalog,
            "namespace": self.namespace,
            "name": self.name,
        }
        return [f"{column} = ?" for column, value in terms.items() if value], [*filter(None, terms.values())]


class DelegationLog:
    """Stores and finds delegations."""

    def __init__(self, meta: MetaStore, *, max_waiting: int = MAX_WAITING) -> None:
        self._meta = meta
        self._max_waiting = max_waiting
        self._waiting: list[DelegationRecord] = []
        self._swept_to = ""
        self.wake: Callable[[], None] = lambda: None
        """Called when a record is added."""

    def enqueue(self, delegation: DelegationRecord) -> None:
        """Record a delegation with the next `flush`. Raises Unavailable if too many are pending."""
        if len(self._waiting) >= self._max_waiting:
            raise Unavailable(f"access delegation is suspended: records cannot be written. pending={self._max_waiting}")
        self._waiting.append(delegation)
        self.wake()

    async def flush(self) -> int:
        """Write pending records. Returns their number; records that cannot be written are kept."""
        done = 0
        while self._waiting:
            batch = self._waiting[:_INSERT_BATCH]
            rows = [_row(delegation) for delegation in batch]

            async def work(tx: Transaction, rows: Sequence[Sequence[Value]] = rows) -> None:
                for row in rows:
                    await tx.run(_INSERT_ONCE, *row)

            await self._meta.transact(work)
            del self._waiting[: len(batch)]
            done += len(batch)
        return done

    async def find(self, delegation_id: str) -> DelegationRecord:
        """By access key id. Raises NotFound."""
        row = await self._meta.row(_FIND, delegation_id)
        if row is None:
            raise NotFound(
                "no delegation of that id on record: never issued, expired from the records, or lost in a crash."
                f" id={delegation_id[:80]}"
            )
        return delegation_from(row)

    async def list(self, query: DelegationFilter, *, before: int, limit: int) -> list[DelegationRecord]:
        """Delegations before a position, newest first."""
        terms, values = query.terms()
        where = " AND ".join(["seq < ?", *terms])
        statement = f"{_SELECT} WHERE {where} ORDER BY seq DESC LIMIT ?"
        return [delegation_from(row) for row in await self._meta.rows(statement, before, *values, limit)]

    async def delete_expired(self, *, before_ms: int) -> int:
        """Delete the oldest records that expired before a time, with their accesses. Returns the number; call again."""

        async def work(tx: Transaction) -> int:
            expired: list[tuple[int, str]] = []
            for seq, delegation_id, expires_ms in await tx.rows(_OLDEST, _DELETE_BATCH):
                if expires_ms >= before_ms:
                    break
                expired.append((seq, delegation_id))
            for _, delegation_id in expired:
                await tx.run(_DELETE_ACCESSES, delegation_id)
            return await tx.run(_DELETE, expired[-1][0]) if expired else 0

        return await self._meta.transact(work)

    async def delete_unrecorded(self, *, before_ms: int) -> int:
        """Delete accesses of expired delegations whose record was lost in a crash. Returns the number of delegations.

        Each call checks one batch and continues after the previous one.
        """
        # Their expiry is unknown, but at most this long after the last use.
        used_before_ms = before_ms - MAX_DELEGATION_SECONDS * 1000
        seen = await self._meta.rows(_USED, self._swept_to, _DELETE_BATCH)
        self._swept_to = str(seen[-1][0]) if len(seen) == _DELETE_BATCH else ""
        lost = [one for one, last_ms, is_recorded in seen if last_ms < used_before_ms and not is_recorded]

        async def work(tx: Transaction) -> None:
            for delegation_id in lost:
                await tx.run(_DELETE_ACCESSES, delegation_id)

        if lost:
            await self._meta.transact(work)
        return len(lost)


def _row(delegation: DelegationRecord) -> Sequence[Value]:
    purpose = delegation.purpose
    return (
        delegation.id,
        purpose.kind,
        purpose.request_id,
        delegation.principal,
        delegation.user_id,
        delegation.arn,
        delegation.lasting_key,
        purpose.remote,
        purpose.catalog,
        purpose.namespace,
        purpose.name,
        delegation.table_id,
        delegation.bucket,
        json.dumps(delegation.directories, ensure_ascii=False),
        int(delegation.writes),
        purpose.method,
        purpose.target,
        delegation.issued_ms,
        delegation.expires_ms,
    )


def delegation_from(row: Row) -> DelegationRecord:
    """A record from its columns, position first."""
    seq, own_id, kind, request_id, principal, user_id, arn, lasting_key, remote, *rest = row
    catalog, namespace, name, table_id, bucket, directories, writes, method, target, issued_ms, expires_ms = rest
    return DelegationRecord(
        own_id,
        DelegationPurpose(DelegationKind(kind), request_id, remote, catalog, namespace, name, method, target),
        principal,
        user_id,
        arn,
        lasting_key,
        table_id,
        bucket,
        tuple(json.loads(directories)),
        bool(writes),
        issued_ms,
        expires_ms,
        seq,
    )
