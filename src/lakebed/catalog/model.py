"""The values of the catalog: what a warehouse, a namespace and an entry are, as their rows have them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from lakebed.objects.buckets.bucket import Bucket

from .identifiers import Levels, levels_of

Properties = dict[str, str]

pack_properties = msgspec.msgpack.Encoder().encode
unpack_properties = msgspec.msgpack.Decoder(Properties).decode
unpack_directories = msgspec.msgpack.Decoder(tuple[str, ...]).decode


def pack_directories(directories: Iterable[str]) -> bytes | None:
    """Directories as their column has them."""
    packed = tuple(directories)
    return msgspec.msgpack.encode(packed) if packed else None


class EntryKind(StrEnum):
    """What a name stands for."""

    TABLE = "table"
    VIEW = "view"
    GENERIC_TABLE = "generic-table"
    """Of another format than Iceberg: known by name, and by where its files are."""

    @property
    def noun(self) -> str:
        """How events of it begin: `GenericTable`."""
        return "".join(word.capitalize() for word in self.split("-"))

    @property
    def words(self) -> str:
        """How messages about it begin: `Generic table`."""
        return self.replace("-", " ").capitalize()


class CatalogKind(StrEnum):
    """Who moves the pointers of a warehouse's tables, as the management API calls it."""

    INTERNAL = "INTERNAL"
    """This server, on the word of its clients."""
    EXTERNAL = "EXTERNAL"
    """Another catalog, which tells this one of it."""


RESERVED_FOLDER: Final = ".lakebed/"
"""The directory of each warehouse that is the server's own."""


class Catalog(NamedTuple):
    """A catalog: tables and views under a name, with their files in a directory of a bucket, or in all of it."""

    bucket: Bucket
    id: int
    name: str
    base_prefix: str
    """The directory, ending in a slash; empty for the whole bucket."""
    kind: CatalogKind
    packed_allowed: bytes | None
    packed_properties: bytes
    created_ms: int
    restricts: bool
    """Whether a policy in it restricts what somebody sees of some table: as of when the row was read."""
    is_federated: bool
    """Whether another catalog is behind it (see `backing`): likewise."""

    @property
    def properties(self) -> Properties:
        """What is set on it."""
        return unpack_properties(self.packed_properties)

    @property
    def is_external(self) -> bool:
        """Whether its tables are another catalog's, and read-only here (see `external`)."""
        return self.kind is CatalogKind.EXTERNAL

    @property
    def is_table_bucket(self) -> bool:
        """Whether it is what enabling a bucket for tables makes: all of the bucket, under its name."""
        return not self.base_prefix and self.name == self.bucket.name

    @property
    def arn(self) -> str:
        """What policies call it."""
        return f"arn:aws:s3tables:{self.bucket.region}:{self.bucket.owner}:bucket/{self.name}"

    @property
    def base_location(self) -> str:
        """Where its files are, unless somebody says otherwise."""
        return f"s3://{self.bucket.name}/{self.base_prefix}"

    @property
    def reserved_prefix(self) -> str:
        """The directory in it that is the server's own."""
        return f"{self.base_prefix}{RESERVED_FOLDER}"

    @property
    def allowed(self) -> tuple[str, ...]:
        """The further directories of the bucket in which its tables may be."""
        return () if self.packed_allowed is None else unpack_directories(self.packed_allowed)

    @property
    def directories(self) -> tuple[str, ...]:
        """All directories in which its tables may be."""
        return (self.base_prefix, *self.allowed)

    def holds(self, bucket: str, key: str) -> bool:
        """Whether a key of a bucket lies where its tables may be."""
        if bucket != self.bucket.name:
            return False
        return key.startswith(self.base_prefix) or (self.packed_allowed is not None and key.startswith(self.allowed))


class Namespace(NamedTuple):
    """A namespace of a warehouse."""

    id: int
    path: str
    packed_properties: bytes

    @property
    def levels(self) -> Levels:
        """Its name."""
        return levels_of(self.path)

    @property
    def properties(self) -> Properties:
        """What is set on it."""
        return unpack_properties(self.packed_properties)


class Entry(NamedTuple):
    """A table or a view: its name, its identity, and where its current metadata is."""

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
