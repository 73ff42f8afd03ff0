"""Creates, lists and deletes buckets, and changes their settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from lakebed.core.access import ResourceRules
from lakebed.core.errors import (
    BucketAlreadyExists,
    BucketAlreadyOwned,
    BucketNotEmpty,
)
from lakebed.core.ids import UploadId
from lakebed.meta.seam import Transaction

from .. import rows
from ..condition_context import bucket_tag_condition_keys
from ..config.cors import CorsConfiguration
from ..config.object_lock import ObjectLockConfiguration
from ..config.ownership import ObjectOwnership
from ..config.tagging import NO_TAGS, TagSet
from ..config.versioning import Versioning, check_versioning_change
from ..context import ObjectContext
from ..events import emit_bucket_event
from ..listing import successor
from ..model import Caller
from ..multipart import delete_upload
from ..names import check_bucket_name
from ..publishing import NewGarbage
from .bucket import Bucket, BucketSettings, bucket_from, encode_settings
from .notification_versions import record_version


@dataclass(frozen=True, slots=True)
class BucketPage:
    """One page of the caller's buckets."""

    buckets: list[Bucket]
    truncated: bool


class BucketService:
    """Operations on buckets."""

    def __init__(self, context: ObjectContext) -> None:
        self._context = context

    async def create(
        self,
        caller: Caller,
        name: str,
        *,
        object_lock: bool = False,
        tags: TagSet | None = None,
        location: str | None = None,
    ) -> Bucket:
        """Create a bucket. Raises InvalidName, BucketAlreadyOwned, BucketAlreadyExists.

        `location` is the requested location constraint. Only policies use it: all buckets are in the server's region.
        """
        context = self._context
        check_bucket_name(name)
        context.reserved_names.check_bucket(name)
        condition_keys = bucket_tag_condition_keys(tags)
        if location is not None:
            condition_keys["s3:locationconstraint"] = location
        await context.authorize_account(caller, "s3:CreateBucket", f"arn:aws:s3:::{name}", condition_keys)
        now_ms = context.clock.now_ms()
        settings = BucketSettings(
            object_lock=ObjectLockConfiguration() if object_lock else None,
            tags=tags or NO_TAGS,
            ownership=ObjectOwnership.BUCKET_OWNER_ENFORCED,
        )
        versioning = Versioning.ENABLED if object_lock else Versioning.UNVERSIONED

        async def work(tx: Transaction) -> Bucket:
            made = await tx.row(
                rows.INSERT_BUCKET,
                name,
                caller.principal.account,
                context.region,
                now_ms,
                versioning,
                encode_settings(settings),
            )
            found = await tx.row(rows.BUCKET_BY_NAME, name)
            assert found is not None  # noqa: S101  # it existed or was just inserted
            bucket = bucket_from(found)
            if made is None:
                if bucket.owner == caller.principal.account:
                    raise BucketAlreadyOwned(f"you already own this bucket. bucket={name}")
                raise BucketAlreadyExists(f"bucket name is taken. bucket={name}")
            await emit_bucket_event(context.outbox, tx, "BucketCreated", bucket, caller, now_ms)
            return bucket

        return await context.meta.transact(work)

    def precheck_creation(self, caller: Caller, name: str) -> None:
        """Reject a caller without permission to create the bucket, before the request is read. Raises AccessDenied."""
        rules = ResourceRules(owner=caller.principal.account)
        self._context.precheck(caller, rules, ("s3:CreateBucket",), f"arn:aws:s3:::{name}")

    async def precheck(self, caller: Caller, name: str, *actions: str, key: str | None = None) -> None:
        """Reject a caller without permission for any of the actions in the bucket, before the request body is read.

        With a key, the permission must be on that key, or on the bucket if the key is empty. Raises NoSuchBucket,
        AccessDenied.
        """
        bucket = await self._context.bucket(self._context.meta, name)
        resource = "" if key is None else f"arn:aws:s3:::{name}/{key}" if key else f"arn:aws:s3:::{name}"
        self._context.precheck(caller, bucket.access_rules, actions, resource)

    async def head(self, caller: Caller, name: str) -> Bucket:
        """The bucket, if the caller may list it. Raises NoSuchBucket."""
        bucket = await self._context.bucket(self._context.meta, name)
        await self._context.authorize(caller, bucket, "s3:ListBucket")
        return bucket

    async def list(self, caller: Caller, *, prefix: str, after: str, limit: int) -> BucketPage:
        """The caller's buckets, by name."""
        context = self._context
        await context.authorize_account(caller, "s3:ListAllMyBuckets", "arn:aws:s3:::*")
        end = successor(prefix)
        found = await context.meta.rows(rows.BUCKETS_OF_OWNER, caller.principal.account, after, prefix, limit + 1)
        buckets = [bucket for bucket in map(bucket_from, found) if end is None or bucket.name < end]
        return BucketPage(buckets[:limit], len(buckets) > limit)

    async def delete(self, caller: Caller, name: str) -> None:
        """Delete an empty bucket and abort its uploads. Raises BucketNotEmpty, BucketHasTables."""
        context = self._context
        bucket = await context.bucket(context.meta, name)
        await context.authorize(caller, bucket, "s3:DeleteBucket")
        now_ms = context.clock.now_ms()

        async def work(tx: Transaction, garbage: NewGarbage) -> None:
            bucket = await context.bucket(tx, name)
            for statement in (rows.BUCKET_HAS_OBJECTS, rows.BUCKET_HAS_VERSIONS):
                if await tx.row(statement, bucket.id) is not None:
                    raise BucketNotEmpty(f"the bucket still holds objects or versions. bucket={name}")
            await context.table_buckets.check_bucket_removal(tx, bucket)
            for row in await tx.rows(rows.BUCKET_UPLOADS, bucket.id):
                await delete_upload(tx, UploadId(row[0]), garbage)
            await tx.run(rows.DELETE_BUCKET, bucket.id)
            seq = await emit_bucket_event(context.outbox, tx, "BucketRemoved", bucket, caller, now_ms)
            if bucket.settings.event_mask:
                await record_version(tx, name, seq, None)

        await context.transact(work)

    async def read(self, caller: Caller, name: str, action: str) -> Bucket:
        """The bucket, if the caller may do `action`: for reading its settings."""
        bucket = await self._context.bucket(self._context.meta, name)
        await self._context.authorize(caller, bucket, action)
        return bucket

    async def authorize_all(self, caller: Caller, action: str) -> None:
        """Return if the caller may do `action` to all buckets at once. Raises AccessDenied."""
        await self._context.authorize_account(caller, action, "arn:aws:s3:::*")

    async def find(self, name: str) -> Bucket:
        """The bucket without a permission check, for checks that precede authorization. Raises NoSuchBucket."""
        return await self._context.bucket(self._context.meta, name)

    async def cors(self, name: str) -> CorsConfiguration | None:
        """The bucket's CORS rules; None if it has none or does not exist.

        Requires no permission: browsers send preflights unsigned, and rules are not secret. One row read.
        """
        row = await self._context.meta.row(rows.BUCKET_BY_NAME, name)
        return None if row is None else bucket_from(row).settings.cors

    async def change(
        self,
        caller: Caller,
        name: str,
        action: str,
        change: Callable[[Bucket], BucketSettings],
    ) -> Bucket:
        """Change settings: `change` runs inside the transaction, and may raise to reject the change."""
        context = self._context
        await self.read(caller, name, action)
        now_ms = context.clock.now_ms()

        async def work(tx: Transaction) -> Bucket:
            bucket = await context.bucket(tx, name)
            packed = encode_settings(change(bucket))
            await tx.run(rows.UPDATE_BUCKET_SETTINGS, packed, bucket.id)
            await emit_bucket_event(context.outbox, tx, "BucketConfigured", bucket, caller, now_ms)
            return bucket._replace(packed_settings=packed)

        return await context.meta.transact(work)

    async def set(self, caller: Caller, name: str, action: str, **settings: object) -> Bucket:
        """Set or clear settings by name."""
        return await self.change(
            caller, name, action, lambda bucket: msgspec.structs.replace(bucket.settings, **settings)
        )

    async def set_versioning(self, caller: Caller, name: str, status: Versioning) -> None:
        """Enable or suspend versioning. Raises InvalidBucketState if object lock requires it."""
        context = self._context
        await self.read(caller, name, "s3:PutBucketVersioning")
        now_ms = context.clock.now_ms()

        async def work(tx: Transaction) -> None:
            bucket = await context.bucket(tx, name)
            check_versioning_change(status, locked=bucket.settings.object_lock is not None)
            await tx.run(rows.UPDATE_BUCKET_VERSIONING, status, bucket.packed_settings, bucket.id)
            await emit_bucket_event(context.outbox, tx, "BucketConfigured", bucket, caller, now_ms)

        await context.meta.transact(work)
