"""Snapshot references: branches and tags, with their retention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from msgspec import Meta, Raw

from lakebed.core.errors import InvalidInput

from ..documents import DocumentElement, Long, make, read, split

__all__ = ["MAIN", "SnapshotReference", "branch", "check_current", "check_reference", "parse_references"]

MAIN: Final = "main"
"""The branch of the current snapshot."""

_AtLeastOne = Annotated[int, Meta(ge=1, le=2**63 - 1)]


class SnapshotReference(DocumentElement, frozen=True):
    """The kind of a reference."""

    snapshot_id: Long
    type: Literal["branch", "tag"]
    min_snapshots_to_keep: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    max_snapshot_age_ms: _AtLeastOne | None = None
    max_ref_age_ms: _AtLeastOne | None = None


def branch(snapshot_id: int) -> SnapshotReference:
    """A branch with the table's default retention."""
    return make(SnapshotReference, {"snapshot-id": snapshot_id, "type": "branch"}, "refs")


def check_reference(name: str, reference: SnapshotReference) -> None:
    """Raise InvalidInput for fields that the kind of reference does not support."""
    if not name:
        raise InvalidInput("a branch or tag must have a name", argument="ref-name")
    if reference.type == "branch":
        return
    if name == MAIN:
        raise InvalidInput(f"{MAIN} must be a branch, not a tag", argument="type")
    if reference.min_snapshots_to_keep is not None or reference.max_snapshot_age_ms is not None:
        raise InvalidInput(
            f"tag {name} cannot have min-snapshots-to-keep or max-snapshot-age-ms: it keeps one snapshot",
            argument="ref-name",
        )


def parse_references(written: Raw, where: str) -> dict[str, SnapshotReference]:
    """Parse a table's branches and tags, by name."""
    return {name: read(SnapshotReference, text, f"{where}.{name}") for name, text in split(written, where).items()}


def check_current(references: Mapping[str, SnapshotReference], current_snapshot_id: int | None) -> None:
    """Raise InvalidInput if the main branch is not the current snapshot."""
    main = references.get(MAIN)
    if main is not None and (main.type != "branch" or main.snapshot_id != current_snapshot_id):
        raise InvalidInput(
            f"refs.{MAIN}: must be a branch to the current snapshot. type={main.type} snapshot={main.snapshot_id}"
            f" current={current_snapshot_id}",
            argument=f"refs.{MAIN}",
        )
