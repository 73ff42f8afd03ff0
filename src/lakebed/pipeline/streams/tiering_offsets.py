"""What a snapshot of the lake says of the stream that it holds: how far the stream is in it. Pure.

Rows and offsets are committed together (ADR 33), so that the table itself tells what it holds, whatever became of the
job that wrote it.
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
"""In a snapshot's summary: how far the stream is in the table (`TableOffsets`)."""
PREPARED: Final = "fluss-offsets"
"""In a snapshot's summary: what the server calls the same."""


@dataclass(frozen=True, slots=True)
class TieredOffsets:
    """What a snapshot says of the stream."""

    snapshot: int
    offsets: TableOffsets
    prepared: str


def latest_tiered_offsets(snapshots: Sequence[Mapping[str, object]], current: int | None) -> TieredOffsets | None:
    """What the newest says, from the current one back, that says anything. Rows as of Iceberg's table `snapshots`."""
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
    """The snapshot to read, and what it holds: the one that was published, or if that is expired the newest that says.

    If none says any more, those who came after the published one have changed no row: maintenance was all there was, as
    a round of tiering would have said so. None for a table without a snapshot. Raises InvalidInput for a table that
    holds another stream.
    """
    if any(row["snapshot_id"] == published.snapshot_id for row in snapshots):
        return published
    told = latest_tiered_offsets(snapshots, current)
    if told is None:
        return None if current is None else TieredSnapshot(published.table_id, current, published.offsets)
    if told.offsets.table_id != published.table_id:
        raise InvalidInput(
            f"the table of the lake holds another stream. id={published.table_id} found={told.offsets.table_id}"
        )
    return TieredSnapshot(published.table_id, told.snapshot, told.offsets.offsets)
