"""Multipart uploads: parts arrive in any order, and become an object in one transaction.

CompleteMultipartUpload moves no bytes: the object's layout references the parts' blobs. It is idempotent: the result is
stored for a while, and the same list of parts gets the same response.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from lakebed.core.checksums import (
    DEFAULT_ALGORITHM,
    Checksum,
    ChecksumAlgorithm,
    ChecksumType,
    PartDigest,
    multipart_checksum,
)
from lakebed.core.errors import (
    IntegrityMismatch,
    InvalidInput,
    InvalidPart,
    InvalidPartOrder,
    NoSuchUpload,
    PartTooSmall,
    PreconditionFailed,
)
from lakebed.core.ids import NULL_VERSION, UploadId, VersionId, new_upload_id
from lakebed.meta.seam import Reader, Transaction

from . import rows
from .blobs.digests import ExpectedDigests
from .blobs.ingest import BodyStream, Ingested
from .buckets.bucket import Bucket
from .condition_context import creation_condition_keys, match_condition_keys
from .conditions import NO_WRITE_CONDITIONS, WriteConditions, check_write
from .context import ObjectContext
from .events import emit_object_event
from .model import (
    MAX_PARTS,
    MAX_PUT_BYTES,
    MIN_PART_BYTES,
    Caller,
    CompletedUpload,
    Extent,
    StoredObject,
    StoredPart,
    StoredUpload,
    UploadAttributes,
    pack,
    pack_checksum,
    unpack_checksum,
)
from .publishing import NewGarbage, drop_blob, insert_blob, insert_content, make_current
from .rows import part_from, upload_from
from .writing import NewObject, ObjectWriter, finish_attributes, load_current

RESULT_KEPT_MS: Final = 24 * 3600 * 1000
"""How long a completed upload can be completed again."""


@dataclass(frozen=True, slots=True)
class ListedPart:
    """A part in a client's CompleteMultipartUpload."""

    number: int
    etag: str
    checksum: Checksum | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """The content of a CompleteMultipartUpload request."""

    parts: Sequence[ListedPart]
    conditions: WriteConditions = NO_WRITE_CONDITIONS
    checksum: Checksum | None = None
    checksum_type: ChecksumType | None = None
    object_size: int | None = None


@dataclass(frozen=True, slots=True)
class CompletedObject:
    """The result of a CompleteMultipartUpload."""

    bucket: Bucket
    key: str
    etag: str
    version: VersionId | None
    checksum: Checksum | None
    encrypted: bool


@dataclass(frozen=True, slots=True)
class PartsPage:
    """An upload and a page of its parts."""

    bucket: Bucket
    upload: StoredUpload
    parts: list[StoredPart]
    truncated: bool


class MultipartUploads:
    """Creates, completes and aborts uploads, and stores parts."""

    def __init__(self, context: ObjectContext, writer: ObjectWriter) -> None:
        self._context = context
        self._writer = writer

    async def begin(
        self,
        caller: Caller,
        bucket_name: str,
        new: NewObject,
        *,
        algorithm: ChecksumAlgorithm | None,
        checksum_type: ChecksumType | None,
    ) -> tuple[Bucket, StoredUpload]:
        """Create an upload. Only listings of uploads show it."""
        context = self._context
        bucket, _ = await self._writer.authorize(caller, bucket_name, new, creates=False)
        encrypted = self._writer.is_encrypted(bucket, new.encrypt)
        upload_id = new_upload_id(context.clock)
        attributes = UploadAttributes(
            object=finish_attributes(bucket, new.attributes, context.clock.now_ms(), encrypted=encrypted),
            checksum_algorithm=algorithm or "",
            checksum_kind=checksum_type or "",
            initiator=caller.principal.arn,
        )
        started_ms = context.clock.now_ms()

        async def work(tx: Transaction) -> Bucket:
            bucket = await context.bucket(tx, bucket_name)
            await tx.run(rows.INSERT_UPLOAD, upload_id, bucket.id, new.key, started_ms, pack(attributes))
            return bucket

        bucket = await context.meta.transact(work)
        return bucket, StoredUpload(upload_id, bucket.id, new.key, started_ms, attributes, None, None)

    async def authorize_part(
        self, caller: Caller, bucket_name: str, key: str, upload_id: str, number: int
    ) -> tuple[Bucket, StoredUpload]:
        """Authorize a part before its body is read."""
        if not 1 <= number <= MAX_PARTS:
            raise InvalidInput(
                f"part number must be between 1 and {MAX_PARTS}", argument="partNumber", value=str(number)
            )
        bucket = await self.authorize(caller, bucket_name, key)
        return bucket, await self._open_upload(self._context.meta, bucket, key, upload_id)

    async def authorize(self, caller: Caller, bucket_name: str, key: str) -> Bucket:
        """Authorize the caller for uploads to this key."""
        bucket = await self._context.bucket(self._context.meta, bucket_name)
        await self._context.authorize_key(caller, bucket, "s3:PutObject", key, creation_condition_keys(creates=False))
        return bucket

    async def put_part(
        self,
        upload: StoredUpload,
        number: int,
        stream: BodyStream,
        expected: ExpectedDigests,
    ) -> tuple[Ingested, Checksum]:
        """Store a part. Uploading a part number again replaces it; the request that finishes last wins."""
        context = self._context
        ingested = await context.ingester.ingest(
            stream, expected, encrypt=upload.attributes.object.encrypted, limit=MAX_PUT_BYTES, inline=False
        )
        now_ms = context.clock.now_ms()
        extent = Extent(
            ingested.size,
            blob=ingested.extent.blob,
            seal=ingested.extent.seal,
            part=number,
            checksum=pack_checksum(ingested.checksum),
        )

        async def work(tx: Transaction, garbage: NewGarbage) -> None:
            row = await tx.row(rows.UPLOAD, upload.id)
            if row is None or upload_from(row).finished_ms is not None:
                raise NoSuchUpload(f"upload was completed or aborted. upload={upload.id}")
            old = await tx.row(rows.PART, upload.id, number)
            if old is not None:
                await drop_blob(tx, part_from(old).extent, garbage)
            await insert_blob(tx, extent)
            await tx.run(
                rows.UPSERT_PART,
                upload.id,
                number,
                ingested.size,
                ingested.etag,
                now_ms,
                # The checksum that clients see; the extent keeps the one for the checksum of the object.
                pack_checksum(ingested.declared or ingested.checksum),
                pack(extent),
            )

        await context.publish(ingested, work)
        return ingested, ingested.declared or ingested.checksum

    async def complete(
        self, caller: Caller, bucket_name: str, key: str, upload_id: str, completion: Completion
    ) -> CompletedObject:
        """Create the object from the listed parts; unlisted parts are dropped."""
        context = self._context
        bucket = await context.bucket(context.meta, bucket_name)
        condition_keys = creation_condition_keys(creates=True) | match_condition_keys(completion.conditions)
        await context.authorize(caller, bucket, "s3:PutObject", key, condition_keys)
        if completion.conditions.if_match is not None:
            await context.authorize(caller, bucket, "s3:GetObject", key)
        key_owner = (
            await context.table_buckets.authorize(caller, bucket, "s3:PutObject", key) if bucket.holds_tables else ""
        )
        now_ms = context.clock.now_ms()

        async def work(tx: Transaction, garbage: NewGarbage) -> CompletedObject:
            bucket, current = await load_current(tx, bucket_name, key)
            if bucket.holds_tables:
                await context.table_buckets.check_write(tx, bucket, key, key_owner)
            upload = await self._find_upload(tx, bucket, key, upload_id)
            if upload.result is not None:
                return _repeated(bucket, upload, upload.result, completion)
            parts = await self._chosen_parts(tx, upload, completion)
            check_write(completion.conditions, None if current is None else current.etag)
            checksum = _whole_checksum(upload.attributes, parts, completion)
            digests = b"".join(bytes.fromhex(part.etag) for part in parts)
            etag = f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(parts)}"
            content = await insert_content(tx, [part.extent for part in parts])
            stored = StoredObject(
                key,
                0,
                bucket.new_version(context.clock),
                sum(part.size for part in parts),
                etag,
                now_ms,
                pack_checksum(checksum),
                content,
                finish_attributes(
                    bucket,
                    upload.attributes.object,
                    now_ms,
                    encrypted=upload.attributes.object.encrypted,
                    part_count=len(parts),
                ),
            )
            stored = await make_current(tx, bucket, current, stored, garbage)
            await self._drop_unlisted(tx, upload, {part.number for part in parts}, garbage)
            result = CompletedUpload(
                etag,
                stored.version,
                stored.checksum_text,
                [(part.number, part.etag) for part in parts],
                stored.attributes.encrypted,
            )
            await tx.run(rows.FINISH_UPLOAD, now_ms, pack(result), upload.id)
            await emit_object_event(
                context.outbox, tx, "ObjectCreated:CompleteMultipartUpload", bucket, stored, caller, now_ms
            )
            return _completed(bucket, key, result)

        return await context.transact(work)

    async def abort(
        self, caller: Caller, bucket_name: str, key: str, upload_id: str, *, started_ms: int | None = None
    ) -> None:
        """Delete an upload and its parts. Raises NoSuchUpload.

        With `started_ms`, only if it was created in that second; PreconditionFailed otherwise.
        """
        context = self._context
        bucket = await context.bucket(context.meta, bucket_name)
        await context.authorize_key(caller, bucket, "s3:AbortMultipartUpload", key)

        async def work(tx: Transaction, garbage: NewGarbage) -> None:
            upload = await self._open_upload(tx, await context.bucket(tx, bucket_name), key, upload_id)
            if started_ms is not None and started_ms // 1000 != upload.started_ms // 1000:
                raise PreconditionFailed(
                    "the upload was initiated at another time", condition="x-amz-if-match-initiated-time"
                )
            await delete_upload(tx, upload.id, garbage)

        await context.transact(work)

    async def parts(
        self, caller: Caller, bucket_name: str, key: str, upload_id: str, *, after: int, limit: int
    ) -> PartsPage:
        """A page of an upload's parts, in ascending order."""
        context = self._context
        bucket = await context.bucket(context.meta, bucket_name)
        await context.authorize_key(caller, bucket, "s3:ListMultipartUploadParts", key)
        upload = await self._open_upload(context.meta, bucket, key, upload_id)
        found = [part_from(row) for row in await context.meta.rows(rows.PARTS_AFTER, upload.id, after, limit + 1)]
        return PartsPage(bucket, upload, found[:limit], len(found) > limit)

    async def _find_upload(self, reader: Reader, bucket: Bucket, key: str, upload_id: str) -> StoredUpload:
        row = await reader.row(rows.UPLOAD, upload_id)
        upload = None if row is None else upload_from(row)
        if upload is None or upload.bucket != bucket.id or upload.key != key:
            raise NoSuchUpload(f"no such upload. upload={upload_id}")
        return upload

    async def _open_upload(self, reader: Reader, bucket: Bucket, key: str, upload_id: str) -> StoredUpload:
        upload = await self._find_upload(reader, bucket, key, upload_id)
        if upload.finished_ms is not None:
            raise NoSuchUpload(f"upload was completed. upload={upload_id}")
        return upload

    async def _chosen_parts(self, tx: Transaction, upload: StoredUpload, completion: Completion) -> list[StoredPart]:
        numbers = [part.number for part in completion.parts]
        if any(later <= earlier for earlier, later in pairwise(numbers)):
            raise InvalidPartOrder("the list of parts is not in ascending order")
        stored = {
            part.number: part for part in map(part_from, await tx.rows(rows.PARTS_AFTER, upload.id, 0, MAX_PARTS))
        }
        chosen = []
        for listed in completion.parts:
            part = stored.get(listed.number)
            if part is None or part.etag != listed.etag.strip('"'):
                raise InvalidPart(f"no such part, or its ETag does not match. part={listed.number}")
            if listed.checksum is not None:
                kept = part.checksum
                if kept is None or kept.algorithm != listed.checksum.algorithm:
                    raise IntegrityMismatch(
                        f"the part has a checksum of another algorithm. part={listed.number}",
                        digest=listed.checksum.algorithm,
                        part=listed.number,
                    )
                if kept.digest != listed.checksum.digest:
                    raise InvalidPart(f"part checksum does not match. part={listed.number}")
            elif upload.attributes.checksum_algorithm and upload.attributes.checksum_kind == ChecksumType.COMPOSITE:
                # AWS requires them; SDKs always send them.
                raise InvalidInput(
                    f"the upload has a composite checksum, so each part must be listed with its checksum."
                    f" part={listed.number}",
                    argument="Checksum" + upload.attributes.checksum_algorithm,
                    value=str(listed.number),
                )
            chosen.append(part)
        for part in chosen[:-1]:
            if part.size < MIN_PART_BYTES:
                raise PartTooSmall(f"part is too small. part={part.number} size={part.size} minimum={MIN_PART_BYTES}")
        size = sum(part.size for part in chosen)
        if completion.object_size is not None and completion.object_size != size:
            raise InvalidInput(
                f"total size of parts does not match the declared size. size={size} declared={completion.object_size}",
                argument="x-amz-mp-object-size",
                value=str(size),
            )
        return chosen

    async def _drop_unlisted(
        self, tx: Transaction, upload: StoredUpload, listed: set[int], garbage: NewGarbage
    ) -> None:
        for row in await tx.rows(rows.PARTS_AFTER, upload.id, 0, MAX_PARTS):
            part = part_from(row)
            if part.number not in listed:
                await drop_blob(tx, part.extent, garbage)
        await tx.run(rows.DELETE_PARTS, upload.id)


async def delete_upload(tx: Transaction, upload: UploadId, garbage: NewGarbage) -> None:
    """Delete an upload and its parts."""
    for row in await tx.rows(rows.PARTS_AFTER, upload, 0, MAX_PARTS):
        await drop_blob(tx, part_from(row).extent, garbage)
    await tx.run(rows.DELETE_PARTS, upload)
    await tx.run(rows.DELETE_UPLOAD, upload)


def _whole_checksum(attributes: UploadAttributes, parts: list[StoredPart], completion: Completion) -> Checksum | None:
    """The object's checksum, from those of its parts. Raises IntegrityMismatch if the client declared another."""
    algorithm = ChecksumAlgorithm(attributes.checksum_algorithm or DEFAULT_ALGORITHM)
    kind = ChecksumType(attributes.checksum_kind or ChecksumType.FULL_OBJECT)
    if completion.checksum_type is not None and attributes.checksum_algorithm and completion.checksum_type != kind:
        raise InvalidInput(
            f"the upload was created with another checksum type. type={kind}",
            argument="x-amz-checksum-type",
            value=kind,
        )
    digests = []
    for part in parts:
        checksum = unpack_checksum(part.extent.checksum)
        if checksum is None or checksum.algorithm != algorithm:
            # Stored by an earlier release, which kept only the sender's checksum.
            return None
        digests.append(PartDigest(checksum.digest, part.size))
    whole = multipart_checksum(algorithm, kind, digests)
    claim = completion.checksum
    # Without a requested algorithm, the checksum is internal and cannot be compared with the client's.
    if claim is not None and claim.algorithm == algorithm and attributes.checksum_algorithm:
        claim.check(whole)
    return whole


def _repeated(bucket: Bucket, upload: StoredUpload, result: CompletedUpload, completion: Completion) -> CompletedObject:
    """The response to a repeated CompleteMultipartUpload. Raises NoSuchUpload if it lists other parts."""
    listed = [(part.number, part.etag.strip('"')) for part in completion.parts]
    if listed != result.parts:
        raise NoSuchUpload(f"upload was completed with other parts. upload={upload.id}")
    return _completed(bucket, upload.key, result)


def _completed(bucket: Bucket, key: str, result: CompletedUpload) -> CompletedObject:
    version = VersionId(result.version) if result.version != NULL_VERSION else None
    return CompletedObject(bucket, key, result.etag, version, unpack_checksum(result.checksum), result.encrypted)
