"""The values of the catalog: what a warehouse, a namespace and an entry are, as their rows have them."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec

from lakebed.objects.bucket import Bucket

from .identifiers import Levels, levels_of

Properties = dict[str, str]

pack_properties = msgspec.msgpack.Encoder().encode
unpack_properties = msgspec.msgpack.Decoder(Properties).decode


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


class Warehouse(NamedTuple):
    """A bucket that is enabled for tables."""

    bucket: Bucket
    enabled_ms: int
    packed_properties: bytes

    @property
    def name(self) -> str:
        """Its name, which is the bucket's."""
        return self.bucket.name

    @property
    def properties(self) -> Properties:
        """What is set on it."""
        return unpack_properties(self.packed_properties)


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
    warehouse: int
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
