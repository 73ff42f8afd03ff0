"""The same updates give the same table here and in PyIceberg."""

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
    """A PyIceberg document without intended differences."""
    # Not PyIceberg's JSON, which does not support version 3 yet.
    document: Json = theirs.model_dump(mode="json", by_alias=True, exclude_none=True)
    if not document.get("next-row-id"):
        document.pop("next-row-id", None)  # PyIceberg omits the first one.
    # PyIceberg keeps the fields for version 1 readers as of the table's creation.
    document.pop("schema", None)
    document.pop("partition-spec", None)
    # PyIceberg uses the snapshot's time, or its own clock.
    del document["last-updated-ms"]
    document["snapshot-log"] = [entry["snapshot-id"] for entry in document.get("snapshot-log", [])]
    # PyIceberg appends a replaced file; here it keeps its position.
    for name in ("statistics", "partition-statistics"):
        document[name] = sorted(document.get(name, []), key=lambda file: int(file["snapshot-id"]))
    # PyIceberg removes expired parents; here a snapshot keeps the text of its writer.
    known = {one["snapshot-id"] for one in document.get("snapshots", [])}
    for one in document.get("snapshots", []):
        if one.get("parent-snapshot-id") not in known:
            one.pop("parent-snapshot-id", None)
    return document


@pytest.mark.slow
@settings(max_examples=100)
@given(st.integers(1, 3), st.data())
def test_new_tables_equal_those_of_pyiceberg(version: int, data: st.DataObject) -> None:
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
    """One update, in a form that both interpret alike."""
    ids = sorted(table.snapshots)
    current = table.current_snapshot_id
    choices = ["append", "append", "schema", "spec", "order", "properties", "location", "identity"]
    if table.format_version < 3:
        choices.append("upgrade")  # PyIceberg does not upgrade to version 3 yet
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
            # PyIceberg keeps partition statistics of removed snapshots.
            files = [action("remove-partition-statistics", snapshot_id=id_) for id_ in oldest if id_ in described]
            return [*files, action("remove-snapshots", snapshot_ids=oldest)]


@pytest.mark.slow
@settings(max_examples=100)
@given(st.integers(1, 3), st.data())
def test_commits_equal_those_of_pyiceberg(version: int, data: st.DataObject) -> None:
    table = make_table(version, columns=COLUMNS)
    for _ in range(data.draw(st.integers(1, 10))):
        updates = draw_update(data, table)
        after = commit(table, *updates, now_ms=NOW, previous_location=PLACE)
        theirs = update_table_metadata(
            read_by_them(table), UPDATES.validate_json(dump(updates)), enforce_validation=True, metadata_location=PLACE
        )
        if after is table:
            # PyIceberg counts some updates without effect.
            theirs = theirs.model_copy(update={"metadata_log": read_by_them(table).metadata_log})
        assert comparable(read_by_them(after)) == comparable(theirs)
        table = after


@pytest.mark.slow
@given(st.integers(1, 2), st.data())
def test_metadata_of_pyiceberg_is_parsed(version: int, data: st.DataObject) -> None:
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
