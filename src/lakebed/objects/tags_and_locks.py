"""Reads and changes tags, retention and legal hold of stored objects."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from lakebed.core.errors import (
    InvalidInput,
    IsDeleteMarker,
    NoSuchConfiguration,
    NoSuchKey,
    NoSuchVersion,
    VersionProtected,
)
from lakebed.meta.seam import Transaction

from . import rows
from .buckets.bucket import Bucket
from .condition_context import ConditionKeys, lock_condition_keys, tag_condition_keys
from .config.object_lock import Retention, may_change_retention
from .config.tagging import TagSet
from .context import ObjectContext
from .events import emit_object_event
from .model import Caller, ObjectAttributes, StoredObject, pack
from .reading import ObjectReader
from .rows import version_from
from .writing import load_current


class TagsAndLocks:
    """Reads and changes these attributes of one version."""

    def __init__(self, context: ObjectContext, reader: ObjectReader) -> None:
        self._context = context
        self._reader = reader

    async def tags(self, caller: Caller, bucket: str, key: str, version: str | None) -> tuple[Bucket, StoredObject]:
        """The version with its tags."""
        return await self._reader.find(
            caller, bucket, key, version, "s3:GetObjectTagging", "s3:GetObjectVersionTagging"
        )

    async def set_tags(
        self, caller: Caller, bucket: str, key: str, version: str | None, tags: TagSet
    ) -> tuple[Bucket, StoredObject]:
        """Replace the tags; an empty set deletes them."""
        verb = "Put" if tags.tags else "Delete"
        return await self._change(
            caller,
            bucket,
            key,
            version,
            (f"s3:{verb}ObjectTagging", f"s3:{verb}ObjectVersionTagging"),
            tag_condition_keys(tags),
            f"ObjectTagging:{verb}",
            lambda _bucket, attributes: msgspec.structs.replace(attributes, tags=tags),
        )

    async def retention(self, caller: Caller, bucket: str, key: str, version: str | None) -> Retention:
        """The retention of a version. Raises NoSuchConfiguration."""
        found_bucket, found = await self._reader.find(
            caller, bucket, key, version, "s3:GetObjectRetention", "s3:GetObjectRetention"
        )
        _need_lock(found_bucket)
        if found.attributes.retention is None:
            raise NoSuchConfiguration("object-retention", "the version has no retention")
        self._context.read_events.emit("ObjectAccessed:GetRetention", found_bucket, found, caller)
        return found.attributes.retention

    async def set_retention(
        self, caller: Caller, bucket: str, key: str, version: str | None, retention: Retention | None
    ) -> None:
        """Set or extend the retention; with the permission to bypass, shorten or clear it."""
        context = self._context

        def change(found_bucket: Bucket, attributes: ObjectAttributes) -> ObjectAttributes:
            _need_lock(found_bucket)
            if not may_change_retention(
                attributes.retention, retention, context.clock.now_ms(), bypass_governance=caller.bypass_governance
            ):
                raise VersionProtected(f"the version is protected by object lock. key={key}")
            return msgspec.structs.replace(attributes, retention=retention)

        condition_keys = lock_condition_keys(retention, None, context.clock.now_ms())
        if caller.bypass_governance:
            await context.authorize(
                caller, await context.bucket(context.meta, bucket), "s3:BypassGovernanceRetention", key, condition_keys
            )
        action = "s3:PutObjectRetention"
        await self._change(
            caller, bucket, key, version, (action, action), condition_keys, "ObjectCreated:PutRetention", change
        )

    async def legal_hold(self, caller: Caller, bucket: str, key: str, version: str | None) -> bool:
        """Whether the version is on legal hold. Raises NoSuchConfiguration if it was never set."""
        found_bucket, found = await self._reader.find(
            caller, bucket, key, version, "s3:GetObjectLegalHold", "s3:GetObjectLegalHold"
        )
        _need_lock(found_bucket)
        if found.attributes.legal_hold is None:
            raise NoSuchConfiguration("object-retention", "the version has no legal hold")
        self._context.read_events.emit("ObjectAccessed:GetLegalHold", found_bucket, found, caller)
        return found.attributes.legal_hold

    async def set_legal_hold(self, caller: Caller, bucket: str, key: str, version: str | None, on: bool) -> None:
        """Set or clear the legal hold."""

        def change(found_bucket: Bucket, attributes: ObjectAttributes) -> ObjectAttributes:
            _need_lock(found_bucket)
            return msgspec.structs.replace(attributes, legal_hold=on)

        action = "s3:PutObjectLegalHold"
        condition_keys = lock_condition_keys(None, on, self._context.clock.now_ms())
        await self._change(
            caller, bucket, key, version, (action, action), condition_keys, "ObjectCreated:PutLegalHold", change
        )

    async def _change(
        self,
        caller: Caller,
        bucket_name: str,
        key: str,
        version: str | None,
        actions: tuple[str, str],
        condition_keys: ConditionKeys,
        event: str,
        change: Callable[[Bucket, ObjectAttributes], ObjectAttributes],
    ) -> tuple[Bucket, StoredObject]:
        context = self._context
        await self._reader.find(caller, bucket_name, key, version, *actions, condition_keys)
        now_ms = context.clock.now_ms()

        async def work(tx: Transaction) -> tuple[Bucket, StoredObject]:
            bucket, current = await load_current(tx, bucket_name, key)
            found = current
            if version is not None and (current is None or current.version != version):
                row = await tx.row(rows.VERSION, bucket.id, key, version)
                if row is None:
                    raise NoSuchVersion(f"no such version. key={key} version={version}")
                found = version_from(row)
            if found is None:
                raise NoSuchKey(f"no such key. key={key}")
            if found.is_marker:
                raise IsDeleteMarker(f"the version is a delete marker. key={key}")
            attributes = change(bucket, found.attributes)
            if found is current:
                await tx.run(rows.UPDATE_OBJECT_ATTRIBUTES, pack(attributes), bucket.id, key)
            else:
                await tx.run(rows.UPDATE_VERSION_ATTRIBUTES, pack(attributes), bucket.id, key, found.rank)
            await emit_object_event(context.outbox, tx, event, bucket, found, caller, now_ms)
            return bucket, found._replace(attributes=attributes)

        return await context.meta.transact(work)


def _need_lock(bucket: Bucket) -> None:
    if bucket.settings.object_lock is None:
        raise InvalidInput("the bucket has no object lock", argument="object-lock")
