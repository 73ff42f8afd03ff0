"""Tiered offsets in snapshot summaries: how far the stream table is in the Iceberg table. Pure.

Rows and offsets commit together (ADR 33), so they agree even if the job was killed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakebed.client.streams.lake import TieredSnapshot
from lakebed.core.errors import InvalidInput

from .offsets import TableOffsets

__all__ = ["OFFSETS", "PREPARED", "TieredOffsets", "latest_tiered_offsets", "readable_snapshot"]

OFFSETS: Final = "lakebed.stream-offsets"
"""Key in snapshot summaries of the tiered offsets (`TableOffsets`)."""
PREPARED: Final = "fluss-offsets"
"""Key in snapshot summaries of the server's file with the same offsets."""


@dataclass(frozen=True, slots=True)
class TieredOffsets:
    """The tiered offsets in a snapshot's summary."""

    snapshot: int
    offsets: TableOffsets
    prepared: str


def latest_tiered_offsets(snapshots: Sequence[Mapping[str, object]], current: int | None) -> TieredOffsets | None:
    """The newest tiered offsets, from the current snapshot back, among rows of Iceberg's metadata table `snapshots`."""
    by_id = {row["snapshot_id"]: row for row in snapshots}
    row = by_id.get(current)
    while row is not None:
        summary = row["summary"]
        if isinstance(summary, Mapping) and OFFSETS in summary:
            offsets = TableOffsets.parse(str(summary[OFFSETS]))
            return TieredOffsets(int(str(row["snapshot_id"])), offsets, str(summary.get(PREPARED, "")))
        row = by_id.get(row["parent_id"])
    return None


def readable_snapshot(
    published: TieredSnapshot, snapshots: Sequence[Mapping[str, object]], current: int | None
) -> TieredSnapshot | None:
    """The snapshot to read and its offsets: the published one or, if that has expired, the newest with tiered offsets.

    If none has offsets, only maintenance has committed since the published one, and the current snapshot has the same
    rows. None for a table without a snapshot. Raises InvalidInput for a table of another stream.
    """
    if any(row["snapshot_id"] == published.snapshot_id for row in snapshots):
        return published
    tiered = latest_tiered_offsets(snapshots, current)
    if tiered is None:
        return None if current is None else TieredSnapshot(published.table_id, current, published.offsets)
    if tiered.offsets.table_id != published.table_id:
        raise InvalidInput(
            f"the Iceberg table has the records of another stream. expected={published.table_id}"
            f" found={tiered.offsets.table_id}"
        )
    return TieredSnapshot(published.table_id, tiered.snapshot, tiered.offsets.offsets)
