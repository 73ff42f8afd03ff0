"""Manifest lists and manifests, read from their bytes: pure, bounded, and as fast as their writers' schemas allow."""

from .limits import DEFAULT_LIMITS, ReadLimits
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
from .reading import Manifest, open_manifest, read_manifest, read_manifest_list

__all__ = [
    "DEFAULT_LIMITS",
    "DataFile",
    "EntryStatus",
    "FieldSummary",
    "FileContent",
    "Manifest",
    "ManifestContent",
    "ManifestEntry",
    "ManifestFile",
    "PartitionValue",
    "ReadLimits",
    "open_manifest",
    "read_manifest",
    "read_manifest_list",
]
