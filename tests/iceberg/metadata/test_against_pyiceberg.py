"""The same updates, applied here and by PyIceberg, give the same table."""

from __future__ import annotations

import json
from uuid import UUID as Uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata as Theirs
from pyiceberg.table.metadata import TableMetadataUtil, new_table_metadata
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update import TableUpdate, update_table_metadata

from lakebed.iceberg.metadata import TableMetadata, parse_table, serialize_table

from ..commits.test_snapshot_updates import partition_statistics, statistics
from ..samples import (
    COLUMNS,
    LOCATION,
    NOW,
    UUID,
    Json,
    action,
    add_snapshot,
    column,
    commit,
    dump,
    make_table,
    set_ref,
)
from ..schemas import partition_fields, schemas, sort_fields

UPDATES: TypeAdapter[tuple[TableUpdate, ...]] = TypeAdapter(tuple[TableUpdate, ...])
PLACE = "s3://lake/previous.metadata.json"


def read_by_them(table: TableMetadata) -> Theirs:
    return TableMetadataUtil.parse_raw(serialize_table(table).decode())


def comparable(theirs: Theirs) -> Json:
    """A document of theirs without what the two mean to do differently."""
    # Not their JSON itself, which they do not write for version 3 yet.
    document: Json = theirs.model_dump(mode="json", by_alias=True, exclude_none=True)
    if not document.get("next-row-id"):
        document.pop("next-row-id", None)  # they leave the first one out
    # They leave what readers of the first version look at as it was when the table was made.
    document.pop("schema", None)
    document.pop("partition-spec", None)
    # They take the time of the snapshot, or of their own clock, as that of the change.
    del document["last-updated-ms"]
    document["snapshot-log"] = [entry["snapshot-id"] for entry in document.get("snapshot-log", [])]
    # They put a replaced file at the end; here it stays in its place.
    for name in ("statistics", "partition-statistics"):
        document[name] = sorted(document.get(name, []), key=lambda file: int(file["snapshot-id"]))
    # They forget parents that were removed; here a snapshot stays as its writer wrote it.
    known = {one["snapshot-id"] for one in document.get("snapshots", [])}
    for one in document.get("snapshots", []):
        if one.get("parent-snapshot-id") not in known:
            one.pop("parent-snapshot-id", None)
    return document


@pytest.mark.slow
@settings(max_examples=100)
@given(st.integers(1, 3), st.data())
def test_new_tables_are_the_same(version: int, data: st.DataObject) -> None:
    columns = data.draw(schemas())
    spec, order = data.draw(partition_fields(columns, 1000)), data.draw(sort_fields(columns))
    ours = make_table(version, columns=columns, spec=spec, order=order)
    theirs = new_table_metadata(
        schema=Schema.model_validate(columns),
        partition_spec=PartitionSpec.model_validate({"spec-id": 0, "fields": spec}),
        sort_order=SortOrder.model_validate({"order-id": 1 if order else 0, "fields": order}),
        location=LOCATION,
        properties={"format-version": str(version), "write.parquet.compression-codec": "zstd"},
        table_uuid=Uuid(UUID),
    )
    assert comparable(read_by_them(ours)) == comparable(theirs)


def draw_update(data: st.DataObject, table: TableMetadata) -> list[Json]:
    """One thing to do, in a form that both take to mean the same."""
    ids = sorted(table.snapshots)
    current = table.current_snapshot_id
    choices = ["append", "append", "schema", "spec", "order", "properties", "location", "identity"]
    if table.format_version < 3:
        choices.append("upgrade")  # they do not go to version 3 yet
    if ids:
        choices += ["branch", "tag", "rollback", "statistics", "partition-statistics", "drop-ref"]
    if len(table.snapshots) > 1 and [entry.snapshot_id for entry in table.snapshot_log] == list(table.snapshots):
        choices += ["expire", "expire"]
    if "a" in table.properties:
        choices.append("remove-property")
    if table.statistics:
        choices.append("remove-statistics")
    match data.draw(st.sampled_from(choices)):
        case "append":
            new = max(ids, default=0) + 1
            number = table.last_sequence_number + 1
            snapshot = add_snapshot(
                new,
                0 if table.format_version == 1 else number,
                parent=current,
                at=NOW + new,
                schema_id=table.current_schema_id,
                rows=(table.next_row_id, data.draw(st.integers(0, 9))) if table.format_version > 2 else None,
            )
            return [snapshot, set_ref(new)]
        case "schema":
            wider = column(
                table.last_column_id + 1, f"c{table.last_column_id + 1}", data.draw(st.sampled_from(["int", "date"]))
            )
            document = json.loads(bytes(table.schema.written))
            document = {**document, "schema-id": max(table.schemas) + 1, "fields": [*document["fields"], wider]}
            return [action("add-schema", schema=document), action("set-current-schema", schema_id=-1)]
        case "spec":
            document = json.loads(bytes(table.schema.written))
            first = table.last_partition_id + 1 if table.format_version > 1 else 1000
            fields = data.draw(partition_fields(document, first))
            known = [field.derivation for spec in table.specs.values() for field in spec.fields]
            if not fields or any(((field["source-id"],), field["transform"]) in known for field in fields):
                return []
            spec = {"spec-id": max(table.specs) + 1, "fields": fields}
            return [action("add-spec", spec=spec), action("set-default-spec", spec_id=-1)]
        case "order":
            fields = data.draw(sort_fields(json.loads(bytes(table.schema.written))))
            order = {"order-id": max(table.sort_orders) + 1, "fields": fields}
            if not fields or any(
                json.loads(bytes(one.written))["fields"] == fields for one in table.sort_orders.values()
            ):
                return []
            return [action("add-sort-order", sort_order=order), action("set-default-sort-order", sort_order_id=-1)]
        case "properties":
            return [action("set-properties", updates={"a": str(len(table.metadata_log)), "b": "2"})]
        case "remove-property":
            return [action("remove-properties", removals=["a"])]
        case "location":
            return [action("set-location", location=f"{LOCATION}-{len(table.metadata_log)}")]
        case "upgrade":
            return [action("upgrade-format-version", format_version=2)]
        case "identity":
            return [action("assign-uuid", uuid=UUID)]
        case "branch":
            return [
                set_ref(data.draw(st.sampled_from(ids)), "b", min_snapshots_to_keep=data.draw(st.none() | st.just(2)))
            ]
        case "tag":
            return [set_ref(data.draw(st.sampled_from(ids)), "t", "tag", max_ref_age_ms=9)]
        case "rollback":
            return [set_ref(data.draw(st.sampled_from(ids)))]
        case "drop-ref":
            return [action("remove-snapshot-ref", ref_name=data.draw(st.sampled_from(["b", "t"])))]
        case "statistics":
            return [statistics(data.draw(st.sampled_from(ids)), data.draw(st.sampled_from("xy")))]
        case "partition-statistics":
            return [partition_statistics(data.draw(st.sampled_from(ids)), data.draw(st.sampled_from("xy")))]
        case "remove-statistics":
            return [action("remove-statistics", snapshot_id=table.statistics[0].snapshot_id)]
        case _:
            oldest = list(table.snapshots)[: data.draw(st.integers(1, len(table.snapshots) - 1))]
            described = {file.snapshot_id for file in table.partition_statistics}
            # They keep partition statistics of snapshots that are gone.
            files = [action("remove-partition-statistics", snapshot_id=id_) for id_ in oldest if id_ in described]
            return [*files, action("remove-snapshots", snapshot_ids=oldest)]


@pytest.mark.slow
@settings(max_examples=100)
@given(st.integers(1, 3), st.data())
def test_commits_have_the_same_outcome(version: int, data: st.DataObject) -> None:
    table = make_table(version, columns=COLUMNS)
    for _ in range(data.draw(st.integers(1, 10))):
        asked = draw_update(data, table)
        after = commit(table, *asked, now_ms=NOW, previous_location=PLACE)
        theirs = update_table_metadata(
            read_by_them(table), UPDATES.validate_json(dump(asked)), enforce_validation=True, metadata_location=PLACE
        )
        if after is table:
            # They count some changes that change nothing.
            theirs = theirs.model_copy(update={"metadata_log": read_by_them(table).metadata_log})
        assert comparable(read_by_them(after)) == comparable(theirs)
        table = after


@pytest.mark.slow
@given(st.integers(1, 2), st.data())
def test_what_they_write_is_read_here(version: int, data: st.DataObject) -> None:
    columns = data.draw(schemas())
    theirs = new_table_metadata(
        schema=Schema.model_validate(columns),
        partition_spec=PartitionSpec.model_validate(
            {"spec-id": 0, "fields": data.draw(partition_fields(columns, 1000))}
        ),
        sort_order=SortOrder.model_validate({"order-id": 0, "fields": []}),
        location=LOCATION,
        properties={"format-version": str(version)},
    )
    ours = parse_table(theirs.model_dump_json().encode())
    assert comparable(read_by_them(ours)) == comparable(theirs)
