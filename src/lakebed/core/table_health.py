"""Table health: the numbers of a table that maintenance rules depend on, as the admin API carries them."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Measured(StrEnum):
    """The source of the numbers."""

    SUMMARY = "summary"
    MANIFESTS = "manifests"


class TableHealth(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    """The health of a table. Unknown numbers are None, and omitted in responses."""

    warehouse: str
    namespace: tuple[str, ...]
    table: str
    entry: str
    format_version: int
    snapshots: int
    oldest_snapshot_ms: int | None = None
    current_snapshot_ms: int | None = None
    data_files: int | None = None
    data_bytes: int | None = None
    """By summary, this includes delete files."""
    small_files: int | None = None
    """By summary, an estimate: the files that each snapshot added are assumed to be of equal size."""
    small_bytes: int | None = None
    small_below_bytes: int
    """Files up to this size count as small."""
    average_file_bytes: float | None = None
    records: int | None = None
    delete_files: int | None = None
    position_deletes: int | None = None
    """Rows that position deletes and deletion vectors delete."""
    equality_deletes: int | None = None
    """Rows of equality deletes, each of which may delete any number of rows."""
    deletion_vectors: int | None = None
    delete_ratio: float | None = None
    """Position and equality deletes per record."""
    manifests: int | None = None
    manifest_bytes: int | None = None
    metadata_files: int
    """In the metadata log, plus the current one."""
    specs_in_use: tuple[int, ...] | None = None
    """Partition specs of live files."""
    statistics_snapshot: int | None = None
    """The newest snapshot that has a statistics file."""
    last_maintained: dict[str, int] = {}
    """When each job succeeded last."""
    measured: Measured
    problems: tuple[str, ...] = ()
    """Why manifests could not be read."""
