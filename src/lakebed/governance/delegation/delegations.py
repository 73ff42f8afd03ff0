"""What the catalog handed out for tables' files: kept durably, for each pair of keys and each signature.

Whoever has the id of a key, from a log, a client or a request, finds here who was given it, for which table, by which
request, and until when. Records are written together within a second: a commit for each would make signing, which
engines ask for with every read, several times slower, and loading a table with keys as well. A crash may take the last
of them. What is then done with such a key or signature is traced all the same, because its token says for whom, for
what table and by which request it was made; and it is told with it that the issue is not on record. Nothing is handed
out while too many records wait.
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
"""How long after their end keys are remembered, unless the settings say otherwise."""

MAX_WAITING: Final = 10_000
"""How many records wait at most to be written together."""

_KEEP_AT_ONCE: Final = 500
_FORGET_AT_ONCE: Final = 1000

_NAMES: Final = (
    "id, kind, request_id, principal, user_id, arn, lasting_key, remote, catalog, namespace, name, table_id, bucket,"
    " directories, writes, method, target, issued_ms, expires_ms"
)
_INSERT_ONCE: Final = (
    f"INSERT INTO delegations ({_NAMES}) VALUES ({', '.join('?' * 19)})"  # noqa: S608 - columns are ours
    " ON CONFLICT (id) DO NOTHING"
)
"""Once, because it is tried again where the answer of the store was lost."""

_SELECT: Final = f"SELECT seq, {_NAMES} FROM delegations"  # noqa: S608 - as above
_FIND: Final = f"{_SELECT} WHERE id = ?"
_OLDEST: Final = "SELECT seq, id, expires_ms FROM delegations ORDER BY seq LIMIT ?"
_FORGET: Final = "DELETE FROM delegations WHERE seq <= ?"
_FORGET_ACCESSES: Final = "DELETE FROM delegated_accesses WHERE delegation = ?"
_USED: Final = (
    "SELECT a.delegation, MAX(a.last_ms), EXISTS (SELECT 1 FROM delegations d WHERE d.id = a.delegation)"
    " FROM delegated_accesses a WHERE a.delegation > ? GROUP BY a.delegation ORDER BY a.delegation LIMIT ?"
)


class DelegationKind(StrEnum):
    """What was handed out, by the words of the Iceberg contract."""

    VENDED = "vended-credentials"
    SIGNED = "remote-signing"


@dataclass(frozen=True, slots=True)
class DelegationPurpose:
    """What keys are handed out for, and the request that asked."""

    kind: DelegationKind
    request_id: str
    remote: str
    catalog: str
    namespace: str
    """Its levels, joined as rows have them."""
    name: str
    method: str = ""
    target: str = ""
    """Of a signature: the request that is signed."""


@dataclass(frozen=True, slots=True)
class DelegationRecord:
    """Keys, or a signature, that were handed out."""

    id: str
    """The access key id. The key itself is nowhere kept."""
    purpose: DelegationPurpose
    principal: str
    user_id: str
    arn: str
    """Of the caller: a role's session, if it had assumed one."""
    lasting_key: str
    """The key, or the client, that the caller had come with, or that its session came from."""
    table_id: str
    bucket: str
    directories: tuple[str, ...]
    writes: bool
    issued_ms: int
    expires_ms: int
    seq: int = 0
    """Its place among all, once it is kept."""


@dataclass(frozen=True, slots=True)
class DelegationFilter:
    """Which are asked for; what is empty does not matter."""

    principal: str = ""
    request_id: str = ""
    catalog: str = ""
    namespace: str = ""
    """Only with a catalog."""
    name: str = ""
    """Only with a namespace."""

    def terms(self) -> tuple[list[str], list[Value]]:
        """The conditions of a statement, and their values."""
        asked = {
            "principal": self.principal,
            "request_id": self.request_id,
            "catalog": self.catalog,
            "namespace": self.namespace,
            "name": self.name,
        }
        return [f"{column} = ?" for column, value in asked.items() if value], [*filter(None, asked.values())]


class DelegationLog:
    """Keeps what was handed out."""

    def __init__(self, meta: MetaStore, *, max_waiting: int = MAX_WAITING) -> None:
        self._meta = meta
        self._max_waiting = max_waiting
        self._waiting: list[DelegationRecord] = []
        self._looked_at = ""
        self.wake: Callable[[], None] = _nobody_waits
        """Called when there is something to be written down: whoever calls `flush` may want to know."""

    def enqueue(self, delegation: DelegationRecord) -> None:
        """Have it recorded with the next `flush`. Raises Unavailable when too many wait for that."""
        if len(self._waiting) >= self._max_waiting:
            raise Unavailable(
                f"what was handed out cannot be recorded, so that no more is. waiting={self._max_waiting}"
            )
        self._waiting.append(delegation)
        self.wake()

    async def flush(self) -> int:
        """Record what waits; how many. What cannot be recorded goes on waiting."""
        done = 0
        while self._waiting:
            batch = self._waiting[:_KEEP_AT_ONCE]
            rows = [_row(delegation) for delegation in batch]

            async def work(tx: Transaction, rows: Sequence[Sequence[Value]] = rows) -> None:
                for row in rows:
                    await tx.run(_INSERT_ONCE, *row)

            await self._meta.transact(work)
            del self._waiting[: len(batch)]
            done += len(batch)
        return done

    async def find(self, delegation_id: str) -> DelegationRecord:
        """By the id of the key. Raises NotFound."""
        row = await self._meta.row(_FIND, delegation_id)
        if row is None:
            raise NotFound(
                "no keys of that id are on record: never handed out, too long ago, or lost in a crash."
                f" id={delegation_id[:80]}"
            )
        return delegation_from(row)

    async def list(self, asked: DelegationFilter, *, before: int, limit: int) -> list[DelegationRecord]:
        """Those handed out before a place among all, newest first."""
        terms, values = asked.terms()
        where = " AND ".join(["seq < ?", *terms])
        statement = f"{_SELECT} WHERE {where} ORDER BY seq DESC LIMIT ?"
        return [delegation_from(row) for row in await self._meta.rows(statement, before, *values, limit)]

    async def delete_expired(self, *, before_ms: int) -> int:
        """Remove the oldest that ended before a time, with what was done with them; how many. To be called again."""

        async def work(tx: Transaction) -> int:
            ended: list[tuple[int, str]] = []
            for seq, delegation_id, expires_ms in await tx.rows(_OLDEST, _FORGET_AT_ONCE):
                if expires_ms >= before_ms:
                    break
                ended.append((seq, delegation_id))
            for _, delegation_id in ended:
                await tx.run(_FORGET_ACCESSES, delegation_id)
            return await tx.run(_FORGET, ended[-1][0]) if ended else 0

        return await self._meta.transact(work)

    async def delete_unrecorded(self, *, before_ms: int) -> int:
        """Remove what was done with keys that ended before a time and whose record a crash took; of how many.

        Nothing else would take it along. A call looks at no more than some keys, the next one at those after them.
        """
        # When they ended is not known: no later than this long after they were last used.
        used_before_ms = before_ms - MAX_DELEGATION_SECONDS * 1000
        seen = await self._meta.rows(_USED, self._looked_at, _FORGET_AT_ONCE)
        self._looked_at = str(seen[-1][0]) if len(seen) == _FORGET_AT_ONCE else ""
        lost = [one for one, last_ms, is_recorded in seen if last_ms < used_before_ms and not is_recorded]

        async def work(tx: Transaction) -> None:
            for delegation_id in lost:
                await tx.run(_FORGET_ACCESSES, delegation_id)

        if lost:
            await self._meta.transact(work)
        return len(lost)


def _nobody_waits() -> None:
    """For records that whoever made them flushes."""


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
    """A delegation from its columns, its place first."""
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
