"""Files of tables in the buckets of this server: objects, published in the transaction that moves the pointer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakebed.core.access import root_of
from lakebed.core.errors import NotFound, PointerMoved, TooLarge, WriteConflict
from lakebed.iceberg.metadata.serialization import TableText
from lakebed.meta.seam import Reader, Row, Transaction
from lakebed.objects import rows as object_rows
from lakebed.objects.blobs.composition import BaseContent, ComposedObject
from lakebed.objects.blobs.contents import ByteRange, ContentSource
from lakebed.objects.blobs.digests import ExpectedDigests
from lakebed.objects.blobs.ingest import Ingested, Ingester
from lakebed.objects.context import ObjectContext
from lakebed.objects.deleting import ObjectDeleter, ObjectIdentifier
from lakebed.objects.listing import successor
from lakebed.objects.model import MAX_PUT_BYTES, Caller, Content, ObjectAttributes
from lakebed.objects.publishing import NewGarbage
from lakebed.objects.reading import ObjectReader
from lakebed.objects.rows import BUCKET_COLUMNS, LIST_PAGE_FROM_WITHIN, LIST_PAGE_WITHIN, OBJECT_COLUMNS
from lakebed.objects.writing import NewObject, ObjectWriter

from .. import rows
from ..commits.shared_history import BaseFile, DocumentSource, shared_parts, should_share_history
from ..model import Catalog
from .files import (
    MAX_METADATA_BYTES,
    DirectoryFile,
    FileAddress,
    FileStat,
    PreparedFile,
    check_metadata_size,
    no_metadata_file,
    parse_location,
    unpack_metadata,
)

_PAGE_KEYS: Final = 1000
_END: Final = "\U0010ffff"
"""After every key of a bucket."""
_JSON: Final = ObjectAttributes(content_type="application/json")
_FACTS_AT: Final = BUCKET_COLUMNS + 3
_CONTENT_ID_AT: Final = BUCKET_COLUMNS + 7
_CONTENT_AT: Final = BUCKET_COLUMNS + OBJECT_COLUMNS


@dataclass(slots=True)
class _ServedFile:
    """A metadata file for a bucket of this server. Implements `PreparedFile`."""

    writer: ObjectWriter
    ingester: Ingester
    address: FileAddress
    taken: Ingested | ComposedObject
    content: int = 0
    """Its content id, once it is visible."""

    @property
    def base_content(self) -> BaseContent | None:
        """All of its bytes, if it is a blob."""
        taken = self.taken
        if isinstance(taken, ComposedObject) or taken.extent.blob is None:
            return None
        return BaseContent(self.content, taken.extent)

    @property
    def shares_history(self) -> bool:
        """Whether it shares the bytes of a base file."""
        return isinstance(self.taken, ComposedObject)

    async def place(self, tx: Transaction, caller: Caller, now_ms: int, displaced: NewGarbage) -> None:
        """Publish it as an object, as a step of the transaction that moves the pointer. Raises PointerMoved."""
        try:
            written = await self.writer.publish_in(
                tx,
                caller,
                self.address.bucket,
                NewObject(self.address.key, _JSON),
                self.taken,
                now_ms,
                displaced,
                event="ObjectCreated:Put",
            )
        except WriteConflict as error:
            raise PointerMoved("base metadata file of the new one was deleted") from error
        self.content = written.object.content or 0

    async def discard(self) -> None:
        """Remove its bytes."""
        if not isinstance(self.taken, ComposedObject):
            await self.ingester.discard(self.taken)


class _Whole:
    """Bytes in memory, as a stream."""

    __slots__ = ("_pieces", "length")

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = iter(pieces)
        self.length: int | None = sum(map(len, pieces))

    async def next_chunk(self) -> bytes | None:
        """The next piece."""
        return next(filter(None, self._pieces), None)


class ServedFiles:
    """Reads and writes files in the buckets of this server, of every catalog there.

    Implements `TableFiles`, and `CatalogFiles` for catalogs without external storage.
    """

    def __init__(
        self, object_context: ObjectContext, writer: ObjectWriter, reader: ObjectReader, deleter: ObjectDeleter
    ) -> None:
        self._f = object_context
        self._writer = writer
        self._reader = reader
        self._deleter = deleter

    def of(self, catalog: Catalog) -> ServedFiles:
        """These files."""
        return self

    async def read(self, location: str, limit: int = MAX_METADATA_BYTES) -> bytes:
        """The whole file, without authorization."""
        return (await self.fetch(location, limit))[0]

    async def fetch(self, location: str, limit: int = MAX_METADATA_BYTES) -> tuple[bytes, FileStat]:
        """The same, and the state of the file that was read."""
        row, source = await self._open(location)
        return await _all_of(source, limit), FileStat(*row[_FACTS_AT : _FACTS_AT + len(FileStat._fields)])

    async def load(self, location: str) -> tuple[bytes, DocumentSource | None]:
        """The JSON of a metadata file, and its source if the next one can share it. Raises NotFound."""
        row, source = await self._open(location)
        content = row[_CONTENT_ID_AT]
        data = await _all_of(source, MAX_METADATA_BYTES)
        document = unpack_metadata(data)
        if document is not data or not source.extents:
            return document, None
        base = await self._f.meta.row(object_rows.BASE_OF_CONTENT, content)
        return document, DocumentSource(content, None if base is None else base[0], source.extents)

    async def _open(self, location: str) -> tuple[Row, ContentSource]:
        address = parse_location(location)
        row = await self._f.meta.row(object_rows.GET, address.key, address.bucket)
        if row is None or row[BUCKET_COLUMNS] is None:
            raise NotFound(f"no such file. location={location}")
        return row, ContentSource(self._f.contents, row[_FACTS_AT], Content(*row[_CONTENT_AT:]))

    async def read_metadata_for(self, caller: Caller, location: str) -> bytes:
        """The JSON of a metadata file, if the caller has S3 permission to read it. Raises InvalidInput without one."""
        try:
            return unpack_metadata(await self.read_for(caller, location))
        except NotFound as error:
            raise no_metadata_file(location) from error

    async def read_for(self, caller: Caller, location: str, limit: int = MAX_METADATA_BYTES) -> bytes:
        """The whole file, if the caller has S3 permission to read it."""
        address = parse_location(location)
        found = await self._reader.get(caller, address.bucket, address.key)
        assert found.source is not None  # noqa: S101  # `get` opens the content
        return await _all_of(found.source, limit)

    async def stat(self, locations: Sequence[str]) -> dict[str, FileStat | None]:
        """The state of each file; None for a missing one."""
        return await _stat(self._f.meta, locations)

    async def list(self, directory: FileAddress, after: str = "") -> AsyncIterator[DirectoryFile]:
        """The files in a directory and below, by key. One statement per 1,000 files. Raises NoSuchBucket."""
        bucket = await self._f.bucket(self._f.meta, directory.bucket)
        prefix = directory.directory if directory.key else ""
        end = successor(prefix) or _END
        position, statement = (prefix, LIST_PAGE_FROM_WITHIN) if after <= prefix else (after, LIST_PAGE_WITHIN)
        while page := await self._f.meta.rows(statement, bucket.id, position, end, _PAGE_KEYS):
            for row in page:
                yield DirectoryFile(*row[: len(DirectoryFile._fields)])
            if len(page) < _PAGE_KEYS:
                return
            statement, position = LIST_PAGE_WITHIN, page[-1][0]

    async def remove(self, locations: Sequence[str]) -> None:
        """Delete the objects, as the owner of their bucket. Absent ones are ignored."""
        by_bucket: dict[str, list[ObjectIdentifier]] = defaultdict(list)
        for location in locations:
            address = parse_location(location)
            by_bucket[address.bucket].append(ObjectIdentifier(address.key))
        for name, objects in by_bucket.items():
            owner = (await self._f.bucket(self._f.meta, name)).owner
            await self._deleter.delete_many(Caller(root_of(owner)), name, objects)

    async def confirm(self, tx: Transaction, observed: Mapping[str, FileStat]) -> None:
        """Raise PointerMoved if a file is not in the observed state.

        One statement per 256 files, without reading them. A file that was deleted and written again with the same bytes
        counts as unchanged.
        """
        found = await _stat(tx, list(observed))
        for location, facts in observed.items():
            now = found[location]
            if now is None or (now.size, now.etag) != (facts.size, facts.etag):
                state = "was deleted" if now is None else "was overwritten"
                raise PointerMoved(f"a file of the commit {state} during validation. location={location}")

    async def prepare(self, address: FileAddress, body: bytes) -> PreparedFile:
        """Store a metadata file's bytes. Raises TooLarge, NoSuchBucket, StorageFull."""
        encrypt = await self._admit(address, len(body))
        return await self._ingest(address, [body], encrypt=encrypt)

    async def prepare_table(self, address: FileAddress, text: TableText, base_file: BaseFile | None) -> PreparedFile:
        """Store a table's metadata file; history in the base file is shared, where that saves enough.

        Raises TooLarge, NoSuchBucket, StorageFull.
        """
        encrypt = await self._admit(address, text.size)
        if base_file is None or not should_share_history(text, base_file, encrypt=encrypt):
            return await self._ingest(address, text.pieces, encrypt=encrypt)
        composed = await self._f.ingester.compose(base_file.content, shared_parts(text, base_file))
        return _ServedFile(self._writer, self._f.ingester, address, composed)

    async def _admit(self, address: FileAddress, size: int) -> bool:
        """Whether the file must be encrypted. Raises TooLarge, NoSuchBucket."""
        check_metadata_size(size)
        bucket = await self._f.bucket(self._f.meta, address.bucket)
        return self._writer.is_encrypted(bucket, None)

    async def _ingest(self, address: FileAddress, pieces: Sequence[bytes], *, encrypt: bool) -> PreparedFile:
        ingested = await self._f.ingester.ingest(
            _Whole(pieces), ExpectedDigests(), encrypt=encrypt, limit=MAX_PUT_BYTES
        )
        return _ServedFile(self._writer, self._f.ingester, address, ingested)


async def _stat(reader: Reader, locations: Sequence[str]) -> dict[str, FileStat | None]:
    facts: dict[str, FileStat | None] = dict.fromkeys(locations)
    by_bucket: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for location in facts:
        address = parse_location(location)
        by_bucket[address.bucket][address.key].append(location)
    for bucket, keys in by_bucket.items():
        wanted = list(keys)
        size, statement = rows.STAT_BATCH, rows.STAT_FILES
        if len(wanted) > rows.STAT_LARGE_BATCH // 2:
            size, statement = rows.STAT_LARGE_BATCH, rows.STAT_MANY_FILES
        for start in range(0, len(wanted), size):
            batch = wanted[start : start + size]
            # One statement text for every batch: the last one is padded with a repeated key.
            batch += batch[-1:] * (size - len(batch))
            for key, length, etag, modified_ms in await reader.rows(statement, bucket, *batch):
                for location in keys[key]:
                    facts[location] = FileStat(length, etag, modified_ms)
    return facts


async def _all_of(source: ContentSource, limit: int) -> bytes:
    if source.size > limit:
        raise TooLarge(f"file is too large. size={source.size} maximum={limit}")
    everything = ByteRange(0, source.size)
    body = source.inline(everything)
    if body is not None:
        return body
    return b"".join([piece async for piece in source.stream(everything)])
