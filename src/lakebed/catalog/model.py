"""The values of the catalog: catalogs, namespaces and entries, as stored in their rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

from lakebed.objects.buckets.bucket import Bucket

from .identifiers import Levels, levels_of

Properties = dict[str, str]

pack_properties = msgspec.msgpack.Encoder().encode
unpack_properties = msgspec.msgpack.Decoder(Properties).decode
unpack_directories = msgspec.msgpack.Decoder(tuple[str, ...]).decode


def pack_directories(directories: Iterable[str]) -> bytes | None:
    """Directories as stored in their column."""
    packed = tuple(directories)
    return msgspec.msgpack.encode(packed) if packed else None


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a listing."""

    items: list[T]
    truncated: bool

    @classmethod
    def of(cls, found: Sequence[T], limit: int) -> Page[T]:
        """The first `limit` of the items found, which are one more if the page is truncated."""
        return cls(list(found[:limit]), len(found) > limit)


class EntryKind(StrEnum):
    """The kind of a named entry."""

    TABLE = "table"
    VIEW = "view"
    GENERIC_TABLE = "generic-table"
    """A table of a format other than Iceberg: name, format and location only."""

    @property
    def noun(self) -> str:
        """The start of its event kinds: `GenericTable`."""
        return "".join(word.capitalize() for word in self.split("-"))

    @property
    def words(self) -> str:
        """The start of messages about it: `Generic table`."""
        return self.replace("-", " ").capitalize()


class CatalogKind(StrEnum):
    """Which system commits to the tables of a catalog, as named by the management API."""

    INTERNAL = "INTERNAL"
    """This server, at the request of its clients."""
    EXTERNAL = "EXTERNAL"
    """Another catalog, which notifies this one."""


RESERVED_FOLDER: Final = ".lakebed/"
"""The directory in each catalog that is reserved for the server."""


class Catalog(NamedTuple):
    """A catalog: named tables and views, whose files are in a directory of a bucket, or in the whole bucket."""

    bucket: Bucket
    id: int
    name: str
    base_prefix: str
    """The base directory, ending in a slash; empty for the whole bucket."""
    kind: CatalogKind
    packed_allowed: bytes | None
    packed_properties: bytes
    created_ms: int
    restricts: bool
    """Whether a policy in it has row filters or column masks, when the row was read."""
    is_federated: bool
    """Whether it is federated (see `external`), when the row was read."""
    storage_revision: str | None
    """The revision of its storage profile; None if its files are in a bucket of this server."""

    @property
    def properties(self) -> Properties:
        """Its properties."""
        return unpack_properties(self.packed_properties)

    @property
    def is_external(self) -> bool:
        """Whether another catalog commits to its tables, which are read-only here (see `external`)."""
        return self.kind is CatalogKind.EXTERNAL

    @property
    def bucket_name(self) -> str:
        """The name of its bucket in locations."""
        return self.bucket.location_name

    @property
    def is_table_bucket(self) -> bool:
        """Whether it is the catalog of a table bucket: the whole bucket, under the bucket's name."""
        return not self.base_prefix and self.name == self.bucket.name

    @property
    def arn(self) -> str:
        """Its ARN in policies."""
        return f"arn:aws:s3tables:{self.bucket.region}:{self.bucket.owner}:bucket/{self.name}"

    @property
    def base_location(self) -> str:
        """The default location of its files."""
        return f"s3://{self.bucket_name}/{self.base_prefix}"

    @property
    def reserved_prefix(self) -> str:
        """The directory in it that is reserved for the server."""
        return f"{self.base_prefix}{RESERVED_FOLDER}"

    @property
    def allowed(self) -> tuple[str, ...]:
        """Additional allowed directories of the bucket."""
        return () if self.packed_allowed is None else unpack_directories(self.packed_allowed)

    @property
    def directories(self) -> tuple[str, ...]:
        """All allowed directories."""
        return (self.base_prefix, *self.allowed)

    def holds(self, bucket: str, key: str) -> bool:
        """Whether a key of a bucket is in an allowed directory."""
        if bucket != self.bucket_name:
            return False
        return key.startswith(self.base_prefix) or (self.packed_allowed is not None and key.startswith(self.allowed))


class Namespace(NamedTuple):
    """A namespace of a catalog."""

    id: int
    path: str
    packed_properties: bytes

    @property
    def levels(self) -> Levels:
        """Its name."""
        return levels_of(self.path)

    @property
    def properties(self) -> Properties:
        """Its properties."""
        return unpack_properties(self.packed_properties)


class Entry(NamedTuple):
    """A table or view: its name, its identity and the location of its current metadata file."""

    id: str
    kind: EntryKind
    catalog: int
    namespace: int
    name: str
    uuid: str
    format_version: int
    location: str
    metadata_at: str
    version_token: str
    generation: int
    created_ms: int
    updated_ms: int
    protected: bool
    dropped_ms: int | None = None
    expires_ms: int | None = None
    purge: bool = False
