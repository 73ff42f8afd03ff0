"""Files of tables: their locations, and the seam through which the catalog reads and writes them.

`served_files` implements it on the buckets of this server.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

from lakebed.core.errors import InvalidInput, TooLarge
from lakebed.iceberg.metadata.serialization import TableText
from lakebed.meta.seam import Transaction
from lakebed.objects.blobs.composition import BaseContent
from lakebed.objects.model import MAX_KEY_BYTES, Caller
from lakebed.objects.publishing import NewGarbage

from ..commits.shared_history import BaseFile, DocumentSource
from ..model import Catalog

MAX_METADATA_BYTES: Final = 50 * 1024 * 1024
"""Maximum size of a table metadata file, compressed or not."""

SCHEMES: Final = ("s3://", "s3a://", "s3n://")
"""Equivalent schemes of locations in S3 stores."""

_NO_SEGMENTS: Final = frozenset({"", ".", ".."})
_FORBIDDEN: Final = re.compile(r"[\\\x00-\x1f]")
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


class DirectoryFile(NamedTuple):
    """A file in a directory, as listings show it."""

    key: str
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


class ListingSource(FileSource, Protocol):
    """Reads and lists files."""

    def list(self, directory: FileAddress, after: str = "") -> AsyncIterator[DirectoryFile]:
        """The files in a directory and below, by key, from the first one after `after`. Raises NoSuchBucket."""
        ...


class FileSources(Protocol):
    """Finds the files of a catalog's tables, to read them."""

    def of(self, catalog: Catalog) -> ListingSource:
        """The files of the catalog's tables. Without I/O."""
        ...


class PreparedFile(Protocol):
    """A metadata file whose bytes are stored or shared, and that no pointer names yet."""

    @property
    def base_content(self) -> BaseContent | None:
        """The bytes that the next metadata files can share, once the file is placed; None if they cannot."""
        ...

    @property
    def shares_history(self) -> bool:
        """Whether it shares the bytes of a base file."""
        ...

    async def place(self, tx: Transaction, caller: Caller, now_ms: int, displaced: NewGarbage) -> None:
        """Make the file visible, as a step of the transaction that moves the pointer.

        Raises PointerMoved if the shared base file is gone: then the file must be prepared again, and whole.
        """
        ...

    async def discard(self) -> None:
        """Remove the bytes of a file that no pointer will name."""
        ...


class TableFiles(ListingSource, Protocol):
    """The files of a catalog's tables."""

    async def fetch(self, location: str, limit: int = MAX_METADATA_BYTES) -> tuple[bytes, FileStat]:
        """The whole file, without authorization, and the state of the file that was read. Raises NotFound, TooLarge."""
        ...

    async def load(self, location: str) -> tuple[bytes, DocumentSource | None]:
        """The JSON of a metadata file, and its source if the next one can share it. Raises NotFound."""
        ...

    async def read_metadata_for(self, caller: Caller, location: str) -> bytes:
        """The JSON of a metadata file that a caller names, if the caller may read it.

        Raises AccessDenied; InvalidInput if it does not exist.
        """
        ...

    async def confirm(self, tx: Transaction, observed: Mapping[str, FileStat]) -> None:
        """Raise PointerMoved if a file is known not to be in the observed state."""
        ...

    async def prepare(self, address: FileAddress, body: bytes) -> PreparedFile:
        """Store a metadata file's bytes. Raises TooLarge, NoSuchBucket, StorageFull."""
        ...

    async def prepare_table(self, address: FileAddress, text: TableText, base_file: BaseFile | None) -> PreparedFile:
        """Store a table's metadata file; history in the base file is shared, where that is possible and saves enough.

        Raises TooLarge, NoSuchBucket, StorageFull.
        """
        ...

    async def remove(self, locations: Sequence[str]) -> None:
        """Remove files of a table that it no longer refers to. Absent ones are ignored."""
        ...


class CatalogFiles(Protocol):
    """Finds the store of a catalog's files."""

    def of(self, catalog: Catalog) -> TableFiles:
        """The files of the catalog's tables. Without I/O."""
        ...


def check_metadata_size(size: int) -> None:
    """Raise TooLarge for a metadata file that is too large to be written."""
    if size > MAX_METADATA_BYTES:
        raise TooLarge(
            f"metadata is too large: expire snapshots, or lower write.metadata.previous-versions-max."
            f" size={size} maximum={MAX_METADATA_BYTES}"
        )
