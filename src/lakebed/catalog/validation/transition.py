"""Whether one table metadata can follow another: existing elements are unchanged, and counters never decrease."""

from __future__ import annotations

from collections.abc import Mapping

from lakebed.core.errors import InvalidInput
from lakebed.iceberg.documents import DocumentElement
from lakebed.iceberg.metadata.table import TableMetadata

from .schema_evolution import check_evolution

__all__ = ["check_transition", "is_equivalent"]


def check_transition(base: TableMetadata, new: TableMetadata, *, strict: bool) -> None:
    """Raise InvalidInput for metadata that cannot follow `base`."""
    if base.uuid is not None and (new.uuid is None or new.uuid.lower() != base.uuid.lower()):
        raise InvalidInput(f"the uuid of a table cannot change. before={base.uuid} after={new.uuid}", argument="uuid")
    for name, before, after in (
        ("format-version", base.format_version, new.format_version),
        ("last-column-id", base.last_column_id, new.last_column_id),
        ("last-partition-id", base.last_partition_id, new.last_partition_id),
        ("last-sequence-number", base.last_sequence_number, new.last_sequence_number),
        ("next-row-id", base.next_row_id, new.next_row_id),
    ):
        if after < before:
            raise InvalidInput(f"{name} cannot decrease. before={before} after={after}", argument=name)
    for schema_id, schema in base.schemas.items():
        kept = new.schemas.get(schema_id)
        if kept is not None and kept is not schema and not kept.is_equivalent(schema):
            raise InvalidInput(f"a schema cannot change under its id. schema={schema_id}", argument="schemas")
    _check_kept("partition spec", base.specs, new.specs)
    _check_kept("sort order", base.sort_orders, new.sort_orders)
    if new.grown_from(base) is None:
        _check_kept("snapshot", base.snapshots, new.snapshots)
    removed = base.schemas.keys() - new.schemas.keys()
    for snapshot in new.snapshots.values() if removed else ():
        if snapshot.schema_id in removed:
            raise InvalidInput(
                f"a schema cannot be removed while a snapshot was written with it."
                f" schema={snapshot.schema_id} snapshot={snapshot.snapshot_id}",
                argument="schemas",
            )
    if new.schema is not base.schema and _keeps_data(base, new):
        check_evolution(
            base.schema,
            new.schema,
            [schema for schema in base.schemas.values() if schema.id != base.current_schema_id],
            new.specs.values(),
            last_column_id=base.last_column_id,
            format_version=new.format_version,
            strict=strict,
        )


def _keeps_data(base: TableMetadata, new: TableMetadata) -> bool:
    """Whether the current snapshot is one of `base`, or a descendant of one.

    If not, the table was replaced: its schema reuses ids by name, whatever their types are now, and former snapshots
    are read with the schemas that they were written with.
    """
    snapshot_id = new.current_snapshot_id
    seen: set[int] = set()
    while snapshot_id is not None and snapshot_id not in base.snapshots and snapshot_id not in seen:
        seen.add(snapshot_id)
        snapshot = new.snapshots.get(snapshot_id)
        snapshot_id = None if snapshot is None else snapshot.parent_snapshot_id
    return snapshot_id in base.snapshots


def _check_kept(what: str, base: Mapping[int, DocumentElement], new: Mapping[int, DocumentElement]) -> None:
    for element_id, element in base.items():
        kept = new.get(element_id)
        if kept is not None and kept is not element and not is_equivalent(kept, element):
            raise InvalidInput(f"a {what} cannot change under its id. id={element_id}")


def is_equivalent(one: DocumentElement, other: DocumentElement) -> bool:
    """Whether two specs, orders or snapshots have the same meaning."""
    return _meaning(one) == _meaning(other)


def _meaning(element: DocumentElement) -> dict[str, object]:
    # By parsed values, not by text: a format upgrade writes values that were implicit before.
    return {name: getattr(element, name) for name in element.__struct_fields__ if name != "written"}
