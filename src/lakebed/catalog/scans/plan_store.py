"""Stored scan plans.

A plan is `submitted` until its work is divided, and then `completed`; or it is `failed` or `cancelled`, which are
final. A completed plan can still be cancelled, which removes its tasks. A plan does not depend on the server that
created it.
"""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Final, NewType, Protocol

import msgspec

from lakebed.core.clock import Clock
from lakebed.core.errors import AlreadyExists
from lakebed.meta.seam import MetaStore, Transaction

from .plan_tasks import Work
from .requests import ScanRequest

__all__ = [
    "MemoryPlanStore",
    "MetadataPlanStore",
    "PlanFailure",
    "PlanId",
    "PlanRecord",
    "PlanStatus",
    "PlanStore",
    "new_plan_id",
]

PlanId = NewType("PlanId", str)


class PlanStatus(StrEnum):
    """The status of a plan, named as in JSON."""

    SUBMITTED = "submitted"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"


class PlanFailure(msgspec.Struct, frozen=True):
    """Why a plan failed: the error's class name and message."""

    error: str
    message: str


class PlanRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A stored plan, encoded with `msgspec.msgpack`."""

    id: PlanId
    table_id: str
    request: ScanRequest
    """It names the snapshot, unless the table had none: a plan does not follow the table."""
    schema_id: int
    """The schema that names in the filter refer to."""
    status: PlanStatus
    work: tuple[Work, ...] = ()
    """Known once it is completed. The response to the plan contains the first task; the others are plan tasks."""
    failure: PlanFailure | None = None
    created_ms: int
    expires_ms: int


class PlanStore(Protocol):
    """Stores plans, shared by all servers."""

    async def insert(self, record: PlanRecord) -> None:
        """Store a new plan. Raises AlreadyExists."""
        ...

    async def get(self, plan_id: PlanId) -> PlanRecord | None:
        """The plan; None if it is unknown."""
        ...

    async def replace(self, record: PlanRecord, expected: PlanStatus) -> bool:
        """Replace a plan if it has the expected status. Returns whether it had."""
        ...

    async def remove_expired(self, now_ms: int) -> int:
        """Delete expired plans. Returns their number."""
        ...


_INSERT: Final = "INSERT INTO scan_plans (id, entry, status, record, expires_ms) VALUES (?, ?, ?, ?, ?)"
_GET: Final = "SELECT record FROM scan_plans WHERE id = ?"
_REPLACE: Final = "UPDATE scan_plans SET status = ?, record = ? WHERE id = ? AND status = ?"
_EXPIRE: Final = "DELETE FROM scan_plans WHERE expires_ms <= ?"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(PlanRecord).decode


class MetadataPlanStore:
    """Stores plans in the metadata store. Implements `PlanStore`."""

    def __init__(self, meta: MetaStore) -> None:
        self._meta = meta

    async def insert(self, record: PlanRecord) -> None:
        """Store a new plan. Raises AlreadyExists."""

        async def work(tx: Transaction) -> None:
            await tx.run(_INSERT, record.id, record.table_id, record.status.value, _encode(record), record.expires_ms)

        await self._meta.transact(work)

    async def get(self, plan_id: PlanId) -> PlanRecord | None:
        """The plan; None if it is unknown."""
        row = await self._meta.row(_GET, plan_id)
        return None if row is None else _decode(row[0])

    async def replace(self, record: PlanRecord, expected: PlanStatus) -> bool:
        """Replace a plan if it has the expected status. Returns whether it had."""

        async def work(tx: Transaction) -> bool:
            return await tx.run(_REPLACE, record.status.value, _encode(record), record.id, expected.value) > 0

        return await self._meta.transact(work)

    async def remove_expired(self, now_ms: int) -> int:
        """Delete expired plans. Returns their number."""

        async def work(tx: Transaction) -> int:
            return await tx.run(_EXPIRE, now_ms)

        return await self._meta.transact(work)


class MemoryPlanStore:
    """Stores plans of one process."""

    def __init__(self) -> None:
        self._records: dict[PlanId, PlanRecord] = {}

    async def insert(self, record: PlanRecord) -> None:
        """Store a new plan. Raises AlreadyExists."""
        if record.id in self._records:
            raise AlreadyExists(f"plan already exists. plan={record.id}")
        self._records[record.id] = record

    async def get(self, plan_id: PlanId) -> PlanRecord | None:
        """The plan; None if it is unknown."""
        return self._records.get(plan_id)

    async def replace(self, record: PlanRecord, expected: PlanStatus) -> bool:
        """Replace a plan if it has the expected status. Returns whether it had."""
        known = self._records.get(record.id)
        if known is None or known.status is not expected:
            return False
        self._records[record.id] = record
        return True

    async def remove_expired(self, now_ms: int) -> int:
        """Delete expired plans. Returns their number."""
        expired = [record.id for record in self._records.values() if record.expires_ms <= now_ms]
        for plan_id in expired:
            del self._records[plan_id]
        return len(expired)


def new_plan_id(clock: Clock) -> PlanId:
    """An unguessable id, in order of time."""
    return PlanId(f"{clock.now_ms():012x}{os.urandom(12).hex()}")
