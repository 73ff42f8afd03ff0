"""Copies objects and parts inside the server.

A copy that keeps its encryption moves no bytes: both objects reference one content. Only a change of encryption or of
checksum algorithm, or a part copy, reads and writes bytes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from lakebed.core.checksums import DEFAULT_ALGORITHM, Checksum, ChecksumAlgorithm
from lakebed.core.errors import InvalidInput, InvalidRange, TooLarge, WriteConflict
from lakebed.meta.seam import Transaction

from . import rows
from .blobs.contents import ByteRange, ContentSource
from .blobs.digests import ExpectedDigests
from .blobs.ingest import Ingested
from .condition_context import version_condition_keys
from .conditions import NO_READ_CONDITIONS, ReadConditions, check_copy_source, check_write
from .config.tagging import TagSet
from .context import KeyOwner, ObjectContext
from .events import emit_object_event
from .model import MAX_PUT_BYTES, REDIRECT, Caller, ObjectAttributes, StoredObject, StoredUpload
from .multipart import MultipartUploads
from .publishing import NewGarbage, make_current
from .reading import FoundObject, ObjectReader
from .writing import NewObject, ObjectWriter, WrittenObject, check_attributes, finish_attributes, load_current


@dataclass(frozen=True, slots=True)
class CopySource:
    """The source of a copy."""

    bucket: str
    key: str
    version: str | None = None
    conditions: ReadConditions = NO_READ_CONDITIONS


@dataclass(frozen=True, slots=True)
class CopyChanges:
    """Attributes that differ from the source; None keeps those of the source."""

    attributes: ObjectAttributes | None = None
    tags: TagSet | None = None
    algorithm: ChecksumAlgorithm | None = None


@dataclass(frozen=True, slots=True)
class CopyResult:
    """The written object, and the version of the source."""

    written: WrittenObject
    source_version: str | None


class _SourceStream:
    """The bytes of a source as the body of a write."""

    def __init__(self, source: ContentSource, wanted: ByteRange) -> None:
        self.length: int | None = wanted.length
        self._chunks: AsyncIterator[bytes] = source.stream(wanted)

    async def next_chunk(self) -> bytes | memoryview | None:
        async for chunk in self._chunks:
            if chunk:
                return chunk
        return None


class ObjectCopier:
    """Copies objects and parts."""

    def __init__(
        self, context: ObjectContext, reader: ObjectReader, writer: ObjectWriter, uploads: MultipartUploads
    ) -> None:
        self._context = context
        self._reader = reader
        self._writer = writer
        self._uploads = uploads

    async def copy(
        self, caller: Caller, source: CopySource, bucket_name: str, new: NewObject, changes: CopyChanges
    ) -> CopyResult:
        """Copy a whole object. Raises InvalidInput when it would change nothing, TooLarge over 5 GiB."""
        found = await self._source(caller, source)
        original = found.object
        if original.size > MAX_PUT_BYTES:
            raise TooLarge(f"source exceeds the limit of one copy. size={original.size} limit={MAX_PUT_BYTES}")
        check_attributes(new.attributes)  # even if the source's attributes are kept
        attributes = changes.attributes if changes.attributes is not None else original.attributes
        tags = changes.tags if changes.tags is not None else original.attributes.tags
        merged = ObjectAttributes(
            content_type=attributes.content_type,
            headers=_inherited(attributes.headers, new.attributes.headers),
            metadata=attributes.metadata,
            tags=tags,
            # A lock is never inherited: it comes from the request or the bucket.
            retention=new.attributes.retention,
            legal_hold=new.attributes.legal_hold,
        )
        if tags.tags and changes.tags is None:
            action = "s3:GetObjectTagging" if source.version is None else "s3:GetObjectVersionTagging"
            await self._context.authorize(
                caller, found.bucket, action, source.key, version_condition_keys(source.version, original)
            )
        # Inherited tags require the same permission as tags in the request.
        wanted = NewObject(new.key, merged, new.encrypt, new.conditions)
        bucket, key_owner = await self._writer.authorize(caller, bucket_name, wanted)
        encrypt = self._writer.is_encrypted(bucket, new.encrypt)
        same = source.bucket == bucket_name and source.key == new.key and source.version is None
        if same and changes.attributes is None and new.encrypt is None and REDIRECT not in new.attributes.headers:
            raise InvalidInput("the copy would not change the object it copies to itself", argument="copy-to-itself")
        kept = original.checksum
        changes_algorithm = changes.algorithm is not None and (kept is None or kept.algorithm != changes.algorithm)
        final = NewObject(new.key, merged, encrypt, new.conditions)
        if original.attributes.encrypted == encrypt and not changes_algorithm:
            written = await self._share(caller, source, bucket_name, final, original, key_owner)
        else:
            ingested = await self._ingest(found.source, original.size, encrypt, changes.algorithm or _algorithm(kept))
            written = await self._writer.publish(
                caller, bucket_name, final, ingested, key_owner=key_owner, event="ObjectCreated:Copy"
            )
        version = original.version if found.bucket.keeps_versions else None
        return CopyResult(written, version)

    async def _source(self, caller: Caller, source: CopySource) -> FoundObject:
        found = await self._reader.get(caller, source.bucket, source.key, version=source.version)
        check_copy_source(source.conditions, found.object.etag, found.object.modified_ms)
        return found

    async def _ingest(
        self, source: ContentSource | None, size: int, encrypt: bool, algorithm: ChecksumAlgorithm
    ) -> Ingested:
        assert source is not None  # noqa: S101  # `get` opens the content
        stream = _SourceStream(source, ByteRange(0, size))
        return await self._context.ingester.ingest(
            stream, ExpectedDigests(algorithm=algorithm), encrypt=encrypt, limit=MAX_PUT_BYTES
        )

    async def _share(
        self,
        caller: Caller,
        source: CopySource,
        bucket_name: str,
        new: NewObject,
        original: StoredObject,
        key_owner: KeyOwner,
    ) -> WrittenObject:
        """Publish an object that references the source's content."""
        context = self._context
        now_ms = context.clock.now_ms()

        async def work(tx: Transaction, garbage: NewGarbage) -> WrittenObject:
            bucket, current = await load_current(tx, bucket_name, new.key)
            if bucket.holds_tables:
                await context.table_buckets.check_write(tx, bucket, new.key, key_owner)
            check_write(new.conditions, None if current is None else current.etag)
            if original.content is not None and await tx.run(rows.SHARE_CONTENT, original.content) == 0:
                raise WriteConflict(f"the source was replaced while it was being copied. key={source.key}")
            stored = StoredObject(
                new.key,
                0,
                bucket.new_version(context.clock),
                original.size,
                original.etag,
                now_ms,
                original.checksum_text,
                original.content,
                finish_attributes(
                    bucket,
                    new.attributes,
                    now_ms,
                    encrypted=original.attributes.encrypted,
                    part_count=original.attributes.part_count,
                ),
            )
            stored = await make_current(tx, bucket, current, stored, garbage)
            await emit_object_event(context.outbox, tx, "ObjectCreated:Copy", bucket, stored, caller, now_ms)
            return WrittenObject(bucket, stored)

        return await context.transact(work)

    async def copy_part(
        self, caller: Caller, source: CopySource, wanted: ByteRange | None, upload: StoredUpload, number: int
    ) -> tuple[Ingested, Checksum, str | None]:
        """Upload a part from a source or a range of it. Raises InvalidRange if the source does not contain it."""
        found = await self._source(caller, source)
        size = found.object.size
        if wanted is not None and wanted.end > size:
            raise InvalidRange("the range is not inside the source", size=size)
        chosen = wanted if wanted is not None else ByteRange(0, size)
        assert found.source is not None  # noqa: S101  # `get` opens the content
        algorithm = ChecksumAlgorithm(upload.attributes.checksum_algorithm or DEFAULT_ALGORITHM)
        ingested, checksum = await self._uploads.put_part(
            upload, number, _SourceStream(found.source, chosen), ExpectedDigests(algorithm=algorithm)
        )
        version = found.object.version if found.bucket.keeps_versions else None
        return ingested, checksum, version


def _inherited(headers: dict[str, str], requested: dict[str, str]) -> dict[str, str]:
    """The headers of a copy. The redirect is never inherited: only the request can set it."""
    kept = {name: value for name, value in headers.items() if name != REDIRECT}
    return {**kept, REDIRECT: requested[REDIRECT]} if REDIRECT in requested else kept


def _algorithm(kept: Checksum | None) -> ChecksumAlgorithm:
    return kept.algorithm if kept is not None else DEFAULT_ALGORITHM
