"""Files of tables: locations as clients write them, read and written as objects."""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

from lakebed.core.errors import InvalidInput, NotFound, PointerMoved, TooLarge, WriteConflict
from lakebed.iceberg.metadata.serialization import TableText
from lakebed.meta.seam import Reader, Row, Transaction
from lakebed.objects import rows as object_rows
from lakebed.objects.blobs.composition import BaseContent, ComposedObject
from lakebed.objects.blobs.contents import ByteRange, ContentSource
from lakebed.objects.blobs.digests import ExpectedDigests
from lakebed.objects.blobs.ingest import Ingested
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import MAX_KEY_BYTES, MAX_PUT_BYTES, Caller, Content, ObjectAttributes
from lakebed.objects.publishing import NewGarbage
from lakebed.objects.reading import ObjectReader
from lakebed.objects.rows import BUCKET_COLUMNS, OBJECT_COLUMNS
from lakebed.objects.writing import NewObject, ObjectWriter

from .. import rows
from ..commits.shared_history import BaseFile, DocumentSource, shared_parts, should_share_history

MAX_METADATA_BYTES: Final = 50 * 1024 * 1024
"""Maximum size of a table metadata file, compressed or not."""

SCHEMES: Final = ("s3://", "s3a://", "s3n://")
"""Equivalent schemes of locations in this store."""

_NO_SEGMENTS: Final = frozenset({"", ".", ".."})
_FORBIDDEN: Final = re.compile(r"[\\\x00-\x1f]")
_JSON: Final = ObjectAttributes(content_type="application/json")
_FACTS_AT: Final = BUCKET_COLUMNS + 3
_CONTENT_ID_AT: Final = BUCKET_COLUMNS + 7
_CONTENT_AT: Final = BUCKET_COLUMNS + OBJECT_COLUMNS
_GZIP_MAGIC: Final = b"\x1f\x8b"
_REMEMBERED: Final = 8192
_REMEMBERED_CHARS: Final = 512
"""Number and maximum length of cached parsed locations: a few MB in total."""


class FileAddress(NamedTuple):
    """A file or directory of a bucket."""

    bucket: str
    key: str

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"

    @property
    def directory(self) -> str:
        """The key as a directory: it ends in one slash, so that `t` does not contain `t10`."""
        return self.key.rstrip("/") + "/"


class FileStat(NamedTuple):
    """The size, ETag and time of a file."""

    size: int
    etag: str
    modified_ms: int


class FileSource(Protocol):
    """Reads files for planning and validation. Locations are `s3://bucket/key`."""

    async def read(self, location: str, limit: int) -> bytes:
        """The whole file. Raises NotFound, TooLarge."""
        ...

    async def stat(self, locations: Sequence[str]) -> dict[str, FileStat | None]:
        """The state of each file; None for a missing one."""
        ...


def parse_location(text: str) -> FileAddress:
    """The file or directory of a location. Raises InvalidInput."""
    return _parse_short(text) if len(text) <= _REMEMBERED_CHARS else _parse(text)


def _parse(text: str) -> FileAddress:
    for scheme in SCHEMES:
        if text.startswith(scheme):
            bucket, _, key = text[len(scheme) :].partition("/")
            break
    else:
        raise InvalidInput(f"not a location in this store: {text!r}; expected s3://BUCKET/KEY", argument="location")
    if not bucket:
        raise InvalidInput(f"location has no bucket: {text!r}", argument="location")
    try:
        bucket.encode()
        size = len(key.encode())
    except UnicodeEncodeError as error:
        raise InvalidInput("location is not valid UTF-8", argument="location") from error
    if size > MAX_KEY_BYTES:
        raise InvalidInput(f"location is too long. maximum={MAX_KEY_BYTES} bytes", argument="location")
    if key and not _NO_SEGMENTS.isdisjoint(key.rstrip("/").split("/")):
        raise InvalidInput(f"location has an empty, `.` or `..` segment: {text!r}", argument="location")
    if _FORBIDDEN.search(text) is not None:
        raise InvalidInput(f"location contains a backslash or a control character: {text!r}", argument="location")
    return FileAddress(bucket, key)


# Successive commits refer to the same manifests.
_parse_short: Final = lru_cache(maxsize=_REMEMBERED)(_parse)


def unpack_metadata(data: bytes) -> bytes:
    """The JSON of a metadata file.

    Gzip is detected by its magic, because writers disagree on names. Raises InvalidInput.
    """
    if not data.startswith(_GZIP_MAGIC):
        return data
    unpacker = zlib.decompressobj(wbits=31)
    try:
        plain = unpacker.decompress(data, MAX_METADATA_BYTES + 1)
    except zlib.error as error:
        raise InvalidInput("metadata file is not valid gzip") from error
    if len(plain) > MAX_METADATA_BYTES:
        raise TooLarge(f"metadata file is too large when decompressed. maximum={MAX_METADATA_BYTES}")
    if not unpacker.eof:
        raise InvalidInput("metadata file ends before its gzip stream does")
    return plain


def no_metadata_file(location: str) -> InvalidInput:
    """The error for a metadata file that a request names and that does not exist."""
    return InvalidInput(f"metadata file does not exist. metadata-location={location}", argument="metadata-location")


@dataclass(slots=True)
class PreparedFile:
    """A file whose bytes are stored or shared, and that is not visible yet."""

    address: FileAddress
    new: NewObject
    taken: Ingested | ComposedObject
    content: int = 0
    """Its content id, once it is visible."""

    @property
    def base_content(self) -> BaseContent | None:
        """The bytes that other files can share: all of them, if the file is a blob."""
        taken = self.taken
        if isinstance(taken, ComposedObject) or taken.extent.blob is None:
            return None
        return BaseContent(self.content, taken.extent)


class _Whole:
    """Bytes in memory, as a stream."""

    __slots__ = ("_pieces", "length")

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = iter(pieces)
        self.length: int | None = sum(map(len, pieces))

    async def next_chunk(self) -> bytes | None:
        """The next piece."""
        return next(filter(None, self._pieces), None)


class TableFiles:
    """Reads and writes the files of tables. Implements `FileSource`."""

    def __init__(self, object_context: ObjectContext, writer: ObjectWriter, reader: ObjectReader) -> None:
        self._f = object_context
        self._writer = writer
        self._reader = reader

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
        return PreparedFile(address, NewObject(address.key, _JSON), composed)

    async def _admit(self, address: FileAddress, size: int) -> bool:
        """Whether the file must be encrypted. Raises TooLarge, NoSuchBucket."""
        if size > MAX_METADATA_BYTES:
            raise TooLarge(
                f"metadata is too large: expire snapshots, or lower write.metadata.previous-versions-max."
                f" size={size} maximum={MAX_METADATA_BYTES}"
            )
        bucket = await self._f.bucket(self._f.meta, address.bucket)
        return self._writer.is_encrypted(bucket, None)

    async def _ingest(self, address: FileAddress, pieces: Sequence[bytes], *, encrypt: bool) -> PreparedFile:
        ingested = await self._f.ingester.ingest(
            _Whole(pieces), ExpectedDigests(), encrypt=encrypt, limit=MAX_PUT_BYTES
        )
        return PreparedFile(address, NewObject(address.key, _JSON), ingested)

    async def place(
        self, tx: Transaction, caller: Caller, prepared: PreparedFile, now_ms: int, displaced: NewGarbage
    ) -> int:
        """Make the file visible, as a step of a transaction. Returns the id of its bucket.

        Raises PointerMoved if the shared base file is gone: then the file must be prepared again, and whole.
        """
        try:
            written = await self._writer.publish_in(
                tx,
                caller,
                prepared.address.bucket,
                prepared.new,
                prepared.taken,
                now_ms,
                displaced,
                event="ObjectCreated:Put",
            )
        except WriteConflict as error:
            raise PointerMoved("base metadata file of the new one was deleted") from error
        prepared.content = written.object.content or 0
        return written.bucket.id

    async def discard(self, prepared: PreparedFile) -> None:
        """Remove the bytes of a file that will not become visible."""
        if not isinstance(prepared.taken, ComposedObject):
            await self._f.ingester.discard(prepared.taken)


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
