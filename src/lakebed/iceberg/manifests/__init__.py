"""Parses manifest lists and manifests from bytes, within limits. No I/O."""

from ..avro.limits import DEFAULT_LIMITS, ReadLimits
from .lists import ManifestList, read_list, read_manifest_list
from .model import (
    DataFile,
    EntryStatus,
    FieldSummary,
    FileContent,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    PartitionValue,
)
from .reading import ManifestReader, open_manifest

__all__ = [
    "DEFAULT_LIMITS",
    "DataFile",
    "EntryStatus",
    "FieldSummary",
    "FileContent",
    "ManifestContent",
    "ManifestEntry",
    "ManifestFile",
    "ManifestList",
    "ManifestReader",
    "PartitionValue",
    "ReadLimits",
    "open_manifest",
    "read_list",
    "read_manifest_list",
]
