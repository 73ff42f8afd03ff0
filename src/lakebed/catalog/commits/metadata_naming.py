"""Names and locations of metadata files: numbered by version, like those of Iceberg's own catalogs."""

from __future__ import annotations

import re
from typing import Final
from uuid import uuid4

from lakebed.iceberg.metadata.table import TableMetadata
from lakebed.iceberg.metadata.views import ViewMetadata

from ..tables.files import FileAddress, parse_location

_VERSION: Final = re.compile(r"v?(?P<version>\d{1,10})[-.]", re.ASCII)


def metadata_address(metadata: TableMetadata | ViewMetadata, previous_at: str | None) -> FileAddress:
    """The location of the next metadata file of a table or view; `previous_at` is the current one, None at creation."""
    # Locations written by other catalogs may end in a slash.
    folder = metadata.properties.get("write.metadata.path") or f"{metadata.location.rstrip('/')}/metadata"
    address = parse_location(folder)
    version = 0 if previous_at is None else file_version(previous_at) + 1
    return FileAddress(address.bucket, f"{address.directory}{version:05d}-{uuid4()}.metadata.json")


def file_version(metadata_at: str) -> int:
    """The version in the name of a metadata file: `00007-….metadata.json` or `v7.metadata.json`; -1 without one.

    The next file has the next version. So a registered table, and one whose first file has version 1, keeps its own
    numbering.
    """
    found = _VERSION.match(metadata_at.rpartition("/")[2])
    return -1 if found is None else int(found["version"])
