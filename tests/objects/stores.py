"""The object services on a metadata store, an object store and a manual clock."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from lakebed.catalog.access.authorization import CatalogAuthorizer
from lakebed.catalog.access.s3_requests import TableFileAuthorizer
from lakebed.core.access import DEFAULT_ACCOUNT, Principal, root_of
from lakebed.core.checksums import ChecksumAlgorithm, ChecksumType
from lakebed.core.clock import ManualClock
from lakebed.core.errors import NoSuchKey
from lakebed.core.ids import BlobId
from lakebed.governance.authorizer import PolicyAuthorizer
from lakebed.meta.outbox import Outbox, OutboxEntry
from lakebed.meta.seam import MetaStore, Transaction
from lakebed.objects.blobs.composition import BaseContent, BaseRange, digest_of
from lakebed.objects.blobs.contents import ByteRange, Contents, ContentSource, MissingBlobs
from lakebed.objects.blobs.digests import ExpectedDigests
from lakebed.objects.blobs.encryption import KeyRing
from lakebed.objects.blobs.garbage_collection import BlobGarbageCollector
from lakebed.objects.blobs.ingest import Ingested, Ingester
from lakebed.objects.blobs.orphan_sweep import OrphanSweep
from lakebed.objects.buckets.bucket import Bucket
from lakebed.objects.buckets.service import BucketService
from lakebed.objects.conditions import NO_WRITE_CONDITIONS, WriteConditions
from lakebed.objects.config.versioning import Versioning
from lakebed.objects.context import ObjectContext
from lakebed.objects.copying import ObjectCopier
from lakebed.objects.deleting import DeletedObject, ObjectDeleter, ObjectIdentifier
from lakebed.objects.lifecycle import LifecycleRunner
from lakebed.objects.listing import Lister
from lakebed.objects.model import DEFAULT_ATTRIBUTES, Caller, ObjectAttributes, StoredUpload, unpack_layout
from lakebed.objects.multipart import CompletedObject, Completion, ListedPart, MultipartUploads
from lakebed.objects.publishing import NewGarbage
from lakebed.objects.reading import ObjectReader
from lakebed.objects.tags_and_locks import TagsAndLocks
from lakebed.objects.writing import NewObject, ObjectWriter, WrittenObject
from lakebed.storage.folder.storage import FolderStorage
from lakebed.storage.memory import MemoryStorage
from lakebed.storage.seam import ObjectStorage
from tests.meta.stores import open_migrated
from tests.storage.ownership import ClaimedAtFirstUse

INLINE_MAX_BYTES = 16
"""Small, so that small bodies are stored as blobs."""

ORPHAN_WINDOW_MS = 3_600_000
DAY_MS = 86_400_000

ROOT = Caller(root_of(DEFAULT_ACCOUNT), request_id="R1", source_ip="127.0.0.1")


def user(name: str, *policies: bytes, account: str = DEFAULT_ACCOUNT) -> Caller:
    """A caller with these policies only."""
    return Caller(Principal(name, account, f"arn:aws:iam::{account}:user/{name}", policies=policies, user_id=name))


class Body:
    """A body in pieces, with its length declared by default."""

    def __init__(self, *pieces: bytes | memoryview, length: int | None = -1) -> None:
        self._pieces = list(pieces)
        self.length: int | None = sum(map(len, pieces)) if length == -1 else length

    async def next_chunk(self) -> bytes | memoryview | None:
        await asyncio.sleep(0)
        return self._pieces.pop(0) if self._pieces else None


async def replaced(blob: BlobId) -> NoSuchKey:
    """The error for a missing blob that no metadata references."""
    return NoSuchKey(f"replaced while it was being read. blob={blob}")


async def read_all(source: ContentSource, wanted: ByteRange | None = None) -> bytes:
    """The bytes as sent to a client: from memory, from files, or as a stream."""
    chosen = wanted if wanted is not None else ByteRange(0, source.size)
    body = source.inline(chosen)
    if body is not None:
        return body
    slices = await source.open_files(chosen)
    if slices is None:
        return b"".join([piece async for piece in source.stream(chosen)])
    read = b""
    for piece in slices:
        if isinstance(piece, bytes):
            read += piece
        else:
            read += os.pread(piece.descriptor, piece.length, piece.offset)
            os.close(piece.descriptor)
    return read


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """The services, their dependencies, and shortcuts to call them as root."""

    object_context: ObjectContext
    clock: ManualClock
    meta: MetaStore
    storage: ObjectStorage
    garbage_collector: BlobGarbageCollector
    orphan_sweep: OrphanSweep
    lifecycle: LifecycleRunner
    buckets: BucketService
    reader: ObjectReader
    writer: ObjectWriter
    deleter: ObjectDeleter
    lister: Lister
    uploads: MultipartUploads
    copier: ObjectCopier
    tags_and_locks: TagsAndLocks

    async def bucket(self, name: str, versioning: Versioning = Versioning.UNVERSIONED) -> Bucket:
        """Create a bucket."""
        made = await self.buckets.create(ROOT, name)
        if versioning is not Versioning.UNVERSIONED:
            await self.buckets.set_versioning(ROOT, name, versioning)
        return made

    async def put(
        self,
        bucket: str,
        key: str,
        body: bytes = b"",
        *,
        attributes: ObjectAttributes = DEFAULT_ATTRIBUTES,
        encrypt: bool | None = None,
        conditions: WriteConditions = NO_WRITE_CONDITIONS,
        caller: Caller = ROOT,
    ) -> WrittenObject:
        """Put an object."""
        new = NewObject(key, attributes, encrypt, conditions)
        return await self.writer.put(caller, bucket, new, Body(body), ExpectedDigests())

    async def base_of(self, written: WrittenObject) -> BaseContent | None:
        """The object's content as a base; None if it is not a blob."""
        row = await self.meta.row("SELECT layout FROM contents WHERE id = ?", written.object.content)
        if row is None or row[0] is None or written.object.content is None:
            return None
        (piece,) = unpack_layout(row[0])
        return BaseContent(written.object.content, piece)

    async def compose(self, bucket: str, key: str, base: BaseContent, *parts: bytes | BaseRange) -> WrittenObject:
        """Put a composed object."""
        composed = await self.object_context.ingester.compose(base, parts)
        now_ms = self.clock.now_ms()
        new, displaced = NewObject(key, DEFAULT_ATTRIBUTES), NewGarbage(now_ms)

        async def work(tx: Transaction) -> WrittenObject:
            return await self.writer.publish_in(
                tx, ROOT, bucket, new, composed, now_ms, displaced, event="ObjectCreated:Put"
            )

        return await self.meta.transact(work)

    async def get(self, bucket: str, key: str, version: str | None = None) -> bytes:
        """Get an object's bytes."""
        found = await self.reader.get(ROOT, bucket, key, version=version)
        assert found.source is not None
        return await read_all(found.source)

    async def delete(self, bucket: str, key: str, version: str | None = None) -> DeletedObject:
        """Delete an object or a version."""
        return await self.deleter.delete(ROOT, bucket, ObjectIdentifier(key, version))

    async def begin(
        self,
        bucket: str,
        key: str,
        *,
        attributes: ObjectAttributes = DEFAULT_ATTRIBUTES,
        encrypt: bool | None = None,
        algorithm: ChecksumAlgorithm | None = None,
        checksum_type: ChecksumType | None = None,
    ) -> StoredUpload:
        """Create a multipart upload."""
        _, upload = await self.uploads.begin(
            ROOT, bucket, NewObject(key, attributes, encrypt), algorithm=algorithm, checksum_type=checksum_type
        )
        return upload

    async def put_part(
        self, upload: StoredUpload, number: int, body: bytes, expected: ExpectedDigests | None = None
    ) -> Ingested:
        """Upload a part."""
        ingested, _ = await self.uploads.put_part(upload, number, Body(body), expected or ExpectedDigests())
        return ingested

    async def complete(
        self,
        bucket: str,
        upload: StoredUpload,
        parts: Sequence[tuple[int, str]],
        conditions: WriteConditions = NO_WRITE_CONDITIONS,
    ) -> CompletedObject:
        """Complete an upload with these parts."""
        listed = [ListedPart(number, etag) for number, etag in parts]
        return await self.uploads.complete(ROOT, bucket, upload.key, upload.id, Completion(listed, conditions))

    async def events(self, after: int = 0) -> list[OutboxEntry]:
        """The entries of the outbox."""
        return await self.object_context.outbox.read_after(self.meta, after, 10_000)

    async def stored_blobs(self) -> set[str]:
        """The ids of all blobs in the object store."""
        return {head.key.rpartition("/")[2] async for head in self.storage.list_prefix("blobs/")}


def range_of(body: bytes, start: int, end: int) -> BaseRange:
    """A base range with these bytes."""
    return BaseRange(start, end - start, digest_of(body[start:end]))


def new_key_ring(active: str = "k1") -> KeyRing:
    """A key ring with the keys `k1` and `k2`."""
    return KeyRing({"k1": b"1" * 32, "k2": b"2" * 32}, active)


def wire(
    meta: MetaStore,
    storage: ObjectStorage,
    clock: ManualClock,
    *,
    garbage_grace_ms: int = 0,
    keys: KeyRing | None = None,
) -> ObjectStore:
    """The services on these stores, wired as in `server.composition`."""
    keys = keys or new_key_ring()
    ownership = ClaimedAtFirstUse(storage)
    garbage_collector = BlobGarbageCollector(meta, storage, ownership, clock, grace_ms=garbage_grace_ms)
    object_context = ObjectContext(
        meta=meta,
        outbox=Outbox(meta),
        storage=storage,
        ingester=Ingester(storage, keys, clock, inline_max_bytes=INLINE_MAX_BYTES),
        contents=Contents(storage, keys, MissingBlobs(meta).explain),
        authorizer=PolicyAuthorizer(clock),
        clock=clock,
        garbage_collector=garbage_collector,
        garbage_grace_ms=garbage_grace_ms,
    )
    object_context = replace(
        object_context, table_buckets=TableFileAuthorizer(meta, CatalogAuthorizer(object_context), object_context.clock)
    )
    reader = ObjectReader(object_context)
    writer = ObjectWriter(object_context)
    uploads = MultipartUploads(object_context, writer)
    return ObjectStore(
        object_context=object_context,
        clock=clock,
        meta=meta,
        storage=storage,
        garbage_collector=garbage_collector,
        orphan_sweep=OrphanSweep(meta, storage, ownership, garbage_collector, clock, window_ms=ORPHAN_WINDOW_MS),
        lifecycle=LifecycleRunner(object_context, day_ms=DAY_MS),
        buckets=BucketService(object_context),
        reader=reader,
        writer=writer,
        deleter=ObjectDeleter(object_context),
        lister=Lister(object_context),
        uploads=uploads,
        copier=ObjectCopier(object_context, reader, writer, uploads),
        tags_and_locks=TagsAndLocks(object_context, reader),
    )


OpenObjectStore = Callable[[ManualClock], AbstractAsyncContextManager[ObjectStore]]
"""Opens an empty object store, which is closed after the test."""

_TABLES = (
    "buckets",
    "objects",
    "versions",
    "contents",
    "blobs",
    "garbage",
    "uploads",
    "parts",
    "outbox",
    "outbox_cursors",
    "notification_versions",
    "event_listeners",
)


@asynccontextmanager
async def opened_store(address: str, storage: str, folder: Path, clock: ManualClock) -> AsyncIterator[ObjectStore]:
    """An empty object store on the metadata store at `address`, and on an object store in memory or in a folder."""
    async with AsyncExitStack() as stack:
        meta = await open_migrated(address)
        stack.push_async_callback(meta.close)
        if meta.dialect == "postgres":  # a new file is empty
            await meta.transact(_empty)
        kept: ObjectStorage = MemoryStorage(clock) if storage == "memory" else FolderStorage(folder, clock)
        stack.push_async_callback(kept.close)
        wired = wire(meta, kept, clock)
        stack.callback(wired.object_context.ingester.close)
        yield wired


async def _empty(tx: Transaction) -> None:
    for table in _TABLES:
        await tx.run(f"DELETE FROM {table}")
