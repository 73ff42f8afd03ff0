"""The order in which snapshots can be checked: parents before their children."""

from __future__ import annotations

from collections.abc import Sequence

from lakebed.core.errors import InvalidInput
from lakebed.iceberg.metadata.snapshots import Snapshot

__all__ = ["parents_first"]


def parents_first(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    """The snapshots, each after its parent. Raises InvalidInput for one that comes from itself."""
    waiting = {snapshot.snapshot_id: snapshot for snapshot in snapshots}
    ordered: list[Snapshot] = []
    for snapshot in snapshots:
        line: dict[int, Snapshot] = {}
        following: Snapshot | None = waiting.pop(snapshot.snapshot_id, None)
        while following is not None:
            line[following.snapshot_id] = following
            parent_id = following.parent_snapshot_id
            if parent_id in line:
                raise InvalidInput(f"snapshot is its own ancestor. snapshot={parent_id}", argument="parent-snapshot-id")
            following = None if parent_id is None else waiting.pop(parent_id, None)
        ordered += reversed(line.values())
    return ordered
