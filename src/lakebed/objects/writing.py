"""Writes whole objects: PUT and POST."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from lakebed.core.checksums import Checksum
from lakebed.core.errors import InvalidInput, NoSuchBucket, TooLarge
from lakebed.core.ids import NULL_VERSION, VersionId
from lakebed.meta.seam import Transaction

from . import rows
from .blobs.composition import ComposedObject
from .blobs.digests import ExpectedDigests
from .blobs.ingest import BodyStream, Ingested
from .buckets.bucket import Bucket, bucket_from
from .condition_context import creation_condition_keys, lock_condition_keys, match_condition_keys, tag_condition_keys
from .conditions import NO_WRITE_CONDITIONS, WriteConditions, check_write
from .config.object_lock import default_retention
from .context import KeyOwner, ObjectContext
from .events import emit_object_event
from .model import MAX_METADATA_BYTES, MAX_PUT_BYTES, Caller, ObjectAttributes, StoredObject, pack_checksum
from .names import check_key
from .publishing import NewGarbage, insert_blob, insert_composed_content, insert_content, make_current
from .rows import BUCKET_COLUMNS, OBJECT_COLUMNS, object_from


@dataclass(frozen=True, slots=True)
class WrittenObject:
    """The result of a write."""

    bucket: Bucket
    object: StoredObject

    @property
    def version(self) -> VersionId | None:
        """The version's id; None if the bucket's versioning is not enabled."""
        return self.object.version if self.object.version != NULL_VERSION else None

    @property
    def checksum(self) -> Checksum | None:
        """The stored checksum."""
        return self.object.checksum


class AuthorizedWrite(NamedTuple):
    """An authorized write."""

    bucket: Bucket
    key_owner: KeyOwner


@dataclass(frozen=True, slots=True)
class NewObject:
    """The key, attributes and conditions of an object to write."""

    key: str
    attributes: ObjectAttributes
    encrypt: bool | None = None
    """As requested; None for the bucket's default."""
    conditions: WriteConditions = NO_WRITE_CONDITIONS


def check_attributes(attributes: ObjectAttributes) -> None:
    """Raise TooLarge if the user metadata exceeds its limit."""
    if attributes.metadata:
        size = sum(
            len(name.encode("utf-8", "replace")) + len(value.encode("utf-8", "replace"))
            for name, value in attributes.metadata.items()
        )
        if size > MAX_METADATA_BYTES:
            raise TooLarge(
                f"user metadata exceeds its limit. size={size} limit={MAX_METADATA_BYTES}", argument="metadata"
            )


class ObjectWriter:
    """Writes objects."""

    def __init__(self, context: ObjectContext) -> None:
        self._context = context

    async def put(
        self,
        caller: Caller,
        bucket_name: str,
        new: NewObject,
        stream: BodyStream,
        expected: ExpectedDigests,
        *,
        event: str = "ObjectCreated:Put",
    ) -> WrittenObject:
        """Store the bytes, then publish them. Raises as `ingest` and `publish`; the object is not visible then."""
        write = await self.authorize(caller, bucket_name, new)
        context = self._context
        ingested = await context.ingester.ingest(
            stream, expected, encrypt=self.is_encrypted(write.bucket, new.encrypt), limit=MAX_PUT_BYTES
        )
        return await self.publish(caller, bucket_name, new, ingested, key_owner=write.key_owner, event=event)

    async def authorize(
        self, caller: Caller, bucket_name: str, new: NewObject, *, creates: bool = True
    ) -> AuthorizedWrite:
        """Authorize, before the body is read, writing the object or creating an upload for it."""
        bucket = await self._context.bucket(self._context.meta, bucket_name)
        check_key(new.key)
        self._context.reserved_names.check_key(bucket.name, new.key)
        check_attributes(new.attributes)
        await authorize_write(self._context, caller, bucket, new, creates=creates)
        key_owner = ""
        if bucket.holds_tables:
            key_owner = await self._context.table_buckets.authorize(caller, bucket, "s3:PutObject", new.key)
        return AuthorizedWrite(bucket, key_owner)

    def is_encrypted(self, bucket: Bucket, requested: bool | None) -> bool:
        """Whether a new object is encrypted: as requested, else by the bucket's setting or the server's."""
        if requested is not None:
            return requested
        return self._context.default_encryption or bucket.encrypts

    async def publish(
        self,
        caller: Caller,
        bucket_name: str,
        new: NewObject,
        ingested: Ingested,
        *,
        key_owner: KeyOwner,
        event: str,
    ) -> WrittenObject:
        """Make ingested bytes the key's current version. If that fails, the bytes are removed.

        Raises WriteConflict if the key belongs to another owner than when the write was authorized.
        """
        context = self._context
        now_ms = context.clock.now_ms()

        async def work(tx: Transaction, garbage: NewGarbage) -> WrittenObject:
            written = await self.publish_in(tx, caller, bucket_name, new, ingested, now_ms, garbage, event=event)
            if written.bucket.holds_tables:
                await context.table_buckets.check_write(tx, written.bucket, new.key, key_owner)
            return written

        return await context.publish(ingested, work)

    async def publish_in(
        self,
        tx: Transaction,
        caller: Caller,
        bucket_name: str,
        new: NewObject,
        body: Ingested | ComposedObject,
        now_ms: int,
        garbage: NewGarbage,
        *,
        event: str,
    ) -> WrittenObject:
        """Inside a transaction, make ingested or composed bytes the key's current version, and append the event.

        The caller discards the bytes if the transaction fails, and wakes the garbage collector if it commits. Raises
        WriteConflict if the base content was deleted.
        """
        context = self._context
        # The server's own writes are not authorized before: metadata files go to the location in the table metadata.
        context.reserved_names.check_key(bucket_name, new.key)
        bucket, current = await load_current(tx, bucket_name, new.key)
        check_write(new.conditions, None if current is None else current.etag)
        if isinstance(body, ComposedObject):
            content, encrypted = await insert_composed_content(tx, body.extents, body.base), body.encrypted
        else:
            content, encrypted = await insert_content(tx, [body.extent]), body.extent.seal is not None
            await insert_blob(tx, body.extent)
        stored = StoredObject(
            new.key,
            0,
            bucket.new_version(context.clock),
            body.size,
            body.etag,
            now_ms,
            pack_checksum(body.checksum),
            content,
            finish_attributes(bucket, new.attributes, now_ms, encrypted=encrypted),
        )
        stored = await make_current(tx, bucket, current, stored, garbage)
        await emit_object_event(context.outbox, tx, event, bucket, stored, caller, now_ms)
        return WrittenObject(bucket, stored)


async def authorize_write(
    context: ObjectContext, caller: Caller, bucket: Bucket, new: NewObject, *, creates: bool = True
) -> None:
    """Require every permission for this write."""
    attributes = new.attributes
    condition_keys = creation_condition_keys(creates=creates)
    if new.conditions:
        condition_keys |= match_condition_keys(new.conditions)
    if attributes.tags.tags:
        condition_keys |= tag_condition_keys(attributes.tags)
    if attributes.retention is not None or attributes.legal_hold is not None:
        condition_keys |= lock_condition_keys(attributes.retention, attributes.legal_hold, context.clock.now_ms())
    await context.authorize(caller, bucket, "s3:PutObject", new.key, condition_keys)
    if attributes.tags.tags:
        await context.authorize(caller, bucket, "s3:PutObjectTagging", new.key, condition_keys)
    if attributes.retention is not None or attributes.legal_hold is not None:
        if bucket.settings.object_lock is None:
            raise InvalidInput("the bucket has no object lock", argument="x-amz-object-lock")
        if attributes.retention is not None:
            await context.authorize(caller, bucket, "s3:PutObjectRetention", new.key, condition_keys)
        if attributes.legal_hold is not None:
            await context.authorize(caller, bucket, "s3:PutObjectLegalHold", new.key, condition_keys)
    if new.conditions.if_match is not None:
        await context.authorize(caller, bucket, "s3:GetObject", new.key)


async def load_current(tx: Transaction, bucket_name: str, key: str) -> tuple[Bucket, StoredObject | None]:
    """The bucket and the key's current version inside the transaction. Raises NoSuchBucket."""
    row = await tx.row(rows.HEAD, key, bucket_name)
    if row is None:
        raise NoSuchBucket(f"no such bucket. bucket={bucket_name}")
    current = (
        None if row[BUCKET_COLUMNS] is None else object_from(row[BUCKET_COLUMNS : BUCKET_COLUMNS + OBJECT_COLUMNS])
    )
    return bucket_from(row), current


def finish_attributes(
    bucket: Bucket, attributes: ObjectAttributes, now_ms: int, *, encrypted: bool, part_count: int = 0
) -> ObjectAttributes:
    """The caller's attributes, with default retention, encryption and part count."""
    lock = bucket.settings.object_lock
    retention = attributes.retention
    if retention is None and lock is not None:
        retention = default_retention(lock, now_ms)
    if retention is attributes.retention and not encrypted and not part_count:
        return attributes
    return msgspec.structs.replace(attributes, retention=retention, encrypted=encrypted, part_count=part_count)
