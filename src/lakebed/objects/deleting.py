"""Deletes objects and versions, one or many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakebed.core.errors import LakebedError, NoSuchBucket, VersionProtected
from lakebed.core.ids import NULL_VERSION, VersionId
from lakebed.meta.seam import Transaction

from . import rows
from .buckets.bucket import Bucket
from .condition_context import match_condition_keys, version_condition_keys
from .conditions import NO_WRITE_CONDITIONS, WriteConditions, check_delete
from .config.object_lock import LegalHold, may_delete_version
from .context import ObjectContext
from .events import emit_object_event
from .model import DEFAULT_ATTRIBUTES, Caller, StoredObject
from .names import check_key
from .publishing import NewGarbage, add_marker, current_of, remove_current, remove_version
from .rows import version_from
from .writing import load_current

_KEYS_A_COMMIT = 64
"""Keys of one DeleteObjects request per transaction, few enough that other transactions run in between."""

NO_OP = "ObjectRemoved:NoOP"
"""The event kind of a deletion that found nothing."""


@dataclass(frozen=True, slots=True)
class ObjectIdentifier:
    """A key, or one of its versions, to delete."""

    key: str
    version: str | None = None
    conditions: WriteConditions = NO_WRITE_CONDITIONS


@dataclass(frozen=True, slots=True)
class DeletedObject:
    """The result of a deletion."""

    key: str
    version: str | None = None
    """The deleted version, if the request named one."""
    marker: VersionId | None = None
    """The delete marker that was created or deleted."""
    made_marker: bool = False


class ObjectDeleter:
    """Deletes objects."""

    def __init__(self, context: ObjectContext) -> None:
        self._context = context

    async def delete(self, caller: Caller, bucket_name: str, identifier: ObjectIdentifier) -> DeletedObject:
        """Delete one object or version. Deleting an absent one succeeds, unless the request has a condition."""
        bucket = await self._context.bucket(self._context.meta, bucket_name)
        await self._authorize(caller, bucket, identifier)
        outcome = (await self._commit(caller, bucket_name, [identifier]))[0]
        if isinstance(outcome, LakebedError):
            raise outcome
        return outcome

    async def delete_many(
        self, caller: Caller, bucket_name: str, identifier: Sequence[ObjectIdentifier]
    ) -> list[DeletedObject | LakebedError]:
        """Delete many: each succeeds or fails independently; results are in the order given."""
        bucket = await self._context.bucket(self._context.meta, bucket_name)
        outcomes: dict[int, DeletedObject | LakebedError] = {}
        allowed: list[int] = []
        for index, one in enumerate(identifier):
            try:
                await self._authorize(caller, bucket, one)
            except LakebedError as refused:
                outcomes[index] = refused
            else:
                allowed.append(index)
        for start in range(0, len(allowed), _KEYS_A_COMMIT):
            batch = allowed[start : start + _KEYS_A_COMMIT]
            results = await self._commit(caller, bucket_name, [identifier[index] for index in batch])
            outcomes.update(zip(batch, results, strict=True))
        return [outcomes[index] for index in range(len(identifier))]

    async def _authorize(self, caller: Caller, bucket: Bucket, identifier: ObjectIdentifier) -> None:
        check_key(identifier.key)
        action = "s3:DeleteObject" if identifier.version is None else "s3:DeleteObjectVersion"
        condition_keys = version_condition_keys(identifier.version, None) | match_condition_keys(identifier.conditions)
        await self._context.authorize(caller, bucket, action, identifier.key, condition_keys)
        if caller.bypass_governance:
            await self._context.authorize(caller, bucket, "s3:BypassGovernanceRetention", identifier.key)
        if bucket.holds_tables:
            await self._context.table_buckets.authorize(caller, bucket, action, identifier.key)

    async def _commit(
        self, caller: Caller, bucket_name: str, identifier: Sequence[ObjectIdentifier]
    ) -> list[DeletedObject | LakebedError]:
        context = self._context
        now_ms = context.clock.now_ms()

        async def work(tx: Transaction, garbage: NewGarbage) -> list[DeletedObject | LakebedError]:
            outcomes: list[DeletedObject | LakebedError] = []
            for one in identifier:
                try:
                    outcomes.append(await self._delete(tx, caller, bucket_name, one, now_ms, garbage))
                except NoSuchBucket:
                    raise
                except LakebedError as refused:
                    # Checks raise before the first change for this key, so the other keys continue.
                    outcomes.append(refused)
            return outcomes

        return await context.transact(work)

    async def _delete(
        self,
        tx: Transaction,
        caller: Caller,
        bucket_name: str,
        identifier: ObjectIdentifier,
        now_ms: int,
        garbage: NewGarbage,
    ) -> DeletedObject:
        bucket, current = await load_current(tx, bucket_name, identifier.key)
        if bucket.holds_tables:
            await self._context.table_buckets.check_write(tx, bucket, identifier.key)
        if identifier.version is not None:
            return await self._delete_version(tx, caller, bucket, current, identifier, now_ms, garbage)
        if current is None:
            check_delete(identifier.conditions, None, 0, 0)
        else:
            check_delete(identifier.conditions, current.etag, current.size, current.modified_ms)
        if not bucket.keeps_versions:
            if current is not None:
                await remove_current(tx, bucket, current, garbage)
                await emit_object_event(
                    self._context.outbox, tx, "ObjectRemoved:Delete", bucket, current, caller, now_ms
                )
            else:
                await self._emit_no_op(tx, caller, bucket, identifier, now_ms)
            return DeletedObject(identifier.key)
        version = bucket.new_version(self._context.clock)
        marker = await add_marker(tx, bucket, current, identifier.key, version, now_ms, garbage)
        await emit_object_event(
            self._context.outbox, tx, "ObjectRemoved:DeleteMarkerCreated", bucket, marker, caller, now_ms
        )
        return DeletedObject(identifier.key, marker=version, made_marker=True)

    async def _delete_version(
        self,
        tx: Transaction,
        caller: Caller,
        bucket: Bucket,
        current: StoredObject | None,
        identifier: ObjectIdentifier,
        now_ms: int,
        garbage: NewGarbage,
    ) -> DeletedObject:
        assert identifier.version is not None  # noqa: S101  # checked by the caller
        if current is not None and current.version == identifier.version:
            found: StoredObject | None = current
        else:
            row = await tx.row(rows.VERSION, bucket.id, identifier.key, identifier.version)
            found = None if row is None else version_from(row)
        if found is None:
            check_delete(identifier.conditions, None, 0, 0)
            await self._emit_no_op(tx, caller, bucket, identifier, now_ms)
            return DeletedObject(identifier.key, version=identifier.version)
        check_delete(identifier.conditions, found.etag, found.size, found.modified_ms)
        if is_protected(found, now_ms, bypass=caller.bypass_governance):
            raise VersionProtected(f"the version is protected by object lock. key={found.key} version={found.version}")
        if found is current:
            await remove_current(tx, bucket, found, garbage)
        else:
            await remove_version(tx, bucket, found, has_current=current is not None, garbage=garbage)
        remains = bucket.keeps_versions and await current_of(tx, bucket, identifier.key) is not None
        await emit_object_event(
            self._context.outbox, tx, "ObjectRemoved:Delete", bucket, found, caller, now_ms, remains=remains
        )
        marker = found.version if found.is_marker else None
        return DeletedObject(identifier.key, version=identifier.version, marker=marker)

    async def _emit_no_op(
        self, tx: Transaction, caller: Caller, bucket: Bucket, identifier: ObjectIdentifier, now_ms: int
    ) -> None:
        """Emit the event of a deletion that found nothing, if a rule subscribes to it."""
        if not self._context.read_events.wants(bucket, NO_OP):
            return
        version = VersionId(identifier.version or NULL_VERSION)
        absent = StoredObject(identifier.key, 0, version, 0, "", now_ms, "", None, DEFAULT_ATTRIBUTES, is_marker=True)
        remains = identifier.version is not None and await current_of(tx, bucket, identifier.key) is not None
        await emit_object_event(self._context.outbox, tx, NO_OP, bucket, absent, caller, now_ms, remains=remains)


def is_protected(version: StoredObject, now_ms: int, *, bypass: bool = False) -> bool:
    """Whether object lock protects a version from permanent deletion."""
    attributes = version.attributes
    hold = LegalHold.ON if attributes.legal_hold else LegalHold.OFF
    return not may_delete_version(attributes.retention, hold, now_ms, bypass_governance=bypass)
