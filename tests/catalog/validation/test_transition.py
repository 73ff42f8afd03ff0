"""Valid transitions between metadata versions, and schema evolution."""

from __future__ import annotations

from typing import Any

import pytest

from lakebed.catalog.validation import check_transition
from lakebed.core.errors import InvalidInput
from lakebed.iceberg.metadata import TableMetadata

from .lake import FIELDS, Lake


def refused(base: TableMetadata, new: TableMetadata, reason: str, *, strict: bool = False) -> None:
    with pytest.raises(InvalidInput, match=reason):
        check_transition(base, new, strict=strict)


@pytest.fixture
def lake() -> Lake:
    lake = Lake(3)
    lake.append(lake.data_file())
    return lake


class TestTable:
    def test_unchanged_metadata_is_valid(self, lake: Lake) -> None:
        check_transition(lake.table, lake.table, strict=True)

    def test_other_uuid_is_rejected(self, lake: Lake) -> None:
        base = lake.table
        lake.document["table-uuid"] = "00000000-0000-4000-8000-000000000000"
        refused(base, lake.table, "uuid of a table cannot change")

    def test_uuid_is_case_insensitive(self, lake: Lake) -> None:
        base = lake.table
        lake.document["table-uuid"] = lake.document["table-uuid"].upper()
        check_transition(base, lake.table, strict=True)

    def test_table_without_uuid_gets_one(self) -> None:
        lake = Lake(1)
        uuid = lake.document.pop("table-uuid")
        base = lake.table
        lake.document["table-uuid"] = uuid
        check_transition(base, lake.table, strict=True)

    @pytest.mark.parametrize(
        "name", ["format-version", "last-column-id", "last-partition-id", "last-sequence-number", "next-row-id"]
    )
    def test_counters_must_not_decrease(self, lake: Lake, name: str) -> None:
        after = lake.table
        lake.document[name] += 1 if name != "format-version" else 0
        base = lake.table
        if name == "format-version":
            lake = Lake(2)
            after = lake.table
        refused(base, after, f"{name} cannot decrease")

    def test_upgrade(self) -> None:
        lake = Lake(1)
        lake.append(lake.data_file())
        base = lake.table
        lake.version = lake.document["format-version"] = 2
        lake.document["snapshots"][0]["sequence-number"] = 0
        check_transition(base, lake.table, strict=True)


class TestWhatIsKept:
    def test_schema(self, lake: Lake) -> None:
        base = lake.table
        lake.document["schemas"] = [{"type": "struct", "schema-id": 0, "fields": FIELDS[:1]}]
        refused(base, lake.table, "schema cannot change under its id")

    def test_schema_written_otherwise(self, lake: Lake) -> None:
        base = lake.table
        lake.document["schemas"] = [{"fields": FIELDS, "schema-id": 0, "type": "struct"}]
        check_transition(base, lake.table, strict=True)

    def test_spec(self, lake: Lake) -> None:
        lake.document["last-partition-id"] = 1000
        base = lake.table
        field = {"name": "region", "transform": "identity", "source-id": 2, "field-id": 1000}
        lake.document["partition-specs"] = [{"spec-id": 0, "fields": [field]}]
        refused(base, lake.table, "partition spec cannot change under its id")

    def test_sort_order(self, lake: Lake) -> None:
        order: dict[str, Any] = {
            "transform": "identity",
            "source-id": 1,
            "direction": "asc",
            "null-order": "nulls-first",
        }
        lake.document["sort-orders"].append({"order-id": 1, "fields": [order]})
        base = lake.table
        lake.document["sort-orders"][1] = {"order-id": 1, "fields": [{**order, "direction": "desc"}]}
        refused(base, lake.table, "sort order cannot change under its id")

    @pytest.mark.parametrize(
        "change",
        [{"manifest-list": "s3://lake/t/metadata/x"}, {"timestamp-ms": 1}, {"summary": {"operation": "delete"}}],
    )
    def test_snapshot(self, lake: Lake, change: dict[str, Any]) -> None:
        base = lake.table
        lake.document["snapshots"] = [{**lake.document["snapshots"][0], **change}]
        refused(base, lake.table, "snapshot cannot change under its id")

    def test_schema_of_a_snapshot(self, lake: Lake) -> None:
        base = lake.table
        lake.document["schemas"] = [{"type": "struct", "schema-id": 1, "fields": FIELDS}]
        lake.document["current-schema-id"] = 1
        refused(base, lake.table, "cannot be removed while a snapshot was written with it")

    def test_removed_parts_are_missing(self, lake: Lake) -> None:
        lake.append(lake.data_file())
        base = lake.table
        del lake.document["snapshots"][0]
        check_transition(base, lake.table, strict=True)


def column(kind: Any = "int", *, id: int = 3, required: bool = False, **more: Any) -> dict[str, Any]:
    return {"id": id, "name": more.pop("name", "c"), "type": kind, "required": required, **more}


def evolve(
    lake: Lake, before: list[dict[str, Any]], after: list[dict[str, Any]], *, last: int = 20
) -> tuple[TableMetadata, TableMetadata]:
    """A table with data whose schema changes from one to another."""
    lake.document["schemas"] = [{"type": "struct", "schema-id": 0, "fields": [*FIELDS, *before]}]
    lake.document["last-column-id"] = last
    base = lake.table
    lake.document["schemas"].append({"type": "struct", "schema-id": 1, "fields": [*FIELDS, *after]})
    lake.document["current-schema-id"] = 1
    lake.document["last-column-id"] = 30
    return base, lake.table


STRUCT = {"type": "struct", "fields": [column(id=4, name="inner")]}
LIST = {"type": "list", "element-id": 4, "element": "int", "element-required": False}
MAP = {"type": "map", "key-id": 4, "key": "string", "value-id": 5, "value": "int", "value-required": False}


class TestEvolution:
    @pytest.mark.parametrize(
        ("before", "after", "since"),
        [
            ("int", "long", 1),
            ("float", "double", 1),
            ("decimal(9,2)", "decimal(18, 2)", 1),
            ("decimal(9,2)", "decimal( 9 , 2 )", 1),
            ("fixed[16]", "fixed[ 16 ]", 1),
            ("INT", "int", 1),
            ("date", "timestamp", 3),
            ("date", "timestamp_ns", 3),
            ("unknown", "string", 3),
            ("unknown", {**LIST, "element-id": 24}, 3),
            (LIST, {**LIST, "element": "long"}, 1),
            (MAP, {**MAP, "value": "long", "value-required": False}, 1),
        ],
    )
    @pytest.mark.parametrize("version", [1, 2, 3])
    def test_type_promotions_are_valid(self, before: Any, after: Any, since: int, version: int) -> None:
        lake = Lake(version)
        lake.append(lake.data_file())
        states = evolve(lake, [column(before)], [column(after)])
        if version >= since:
            check_transition(*states, strict=True)
        else:
            refused(*states, "cannot change its type")

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("long", "int"),
            ("double", "float"),
            ("int", "string"),
            ("int", "double"),
            ("date", "timestamptz"),
            ("string", "binary"),
            ("uuid", "string"),
            ("fixed[16]", "fixed[17]"),
            ("decimal(9,2)", "decimal(8,2)"),
            ("decimal(9,2)", "decimal(9,3)"),
            ("decimal(9,2)", "long"),
            ("timestamp", "timestamp_ns"),
            ("int", STRUCT),
            (STRUCT, "int"),
            (STRUCT, LIST),
            (LIST, {**LIST, "element": "string"}),
            (LIST, {**LIST, "element-id": 25}),
            (MAP, {**MAP, "key": "binary"}),
            (MAP, {**MAP, "value-id": 25}),
        ],
    )
    def test_other_type_changes_are_rejected(self, lake: Lake, before: Any, after: Any) -> None:
        refused(*evolve(lake, [column(before)], [column(after)]), "cannot change its type|moved into or out of")

    def test_rename_reorder_drop_and_add_are_valid(self, lake: Lake) -> None:
        before = [column(name="a"), column(id=4, name="b"), column(id=5, name="c")]
        after = [column(id=21, name="new"), column(id=5, name="c"), column(name="renamed")]
        check_transition(*evolve(lake, before, after), strict=True)

    def test_column_cannot_move_into_a_struct(self, lake: Lake) -> None:
        outer = {"type": "struct", "fields": [column(id=3)]}
        refused(*evolve(lake, [column(id=3)], [column(outer, id=21, name="outer")]), "moved into or out of")

    def test_dropped_field_id_is_not_reused(self, lake: Lake) -> None:
        refused(*evolve(lake, [], [column(id=20)]), "in use before")

    def test_dropped_column_can_be_restored_unchanged(self, lake: Lake) -> None:
        lake.document["last-column-id"] = 3
        lake.document["schemas"].append({"type": "struct", "schema-id": 1, "fields": [*FIELDS, column()]})
        base = lake.table
        lake.document["current-schema-id"] = 1
        check_transition(base, lake.table, strict=True)
        lake.document["schemas"].append({"type": "struct", "schema-id": 2, "fields": [*FIELDS, column("string")]})
        lake.document["current-schema-id"] = 2
        refused(base, lake.table, "cannot change its type")

    def test_optional_columns_become_required_only_if_allowed(self, lake: Lake) -> None:
        states = evolve(lake, [column()], [column(required=True)])
        check_transition(*states, strict=False)
        refused(*states, "cannot become required", strict=True)

    def test_required_columns_can_become_optional(self, lake: Lake) -> None:
        check_transition(*evolve(lake, [column(required=True)], [column()]), strict=True)

    @pytest.mark.parametrize(("before", "after"), [(1, 2), (None, 1), (1, None)])
    def test_initial_defaults_must_not_change(self, lake: Lake, before: int | None, after: int | None) -> None:
        old, new = column(), column()
        old["initial-default"], new["initial-default"] = before, after
        refused(*evolve(lake, [old], [new]), "initial default of column")

    @pytest.mark.parametrize(("transform", "is_same"), [("day", True), ("identity", False), ("bucket[4]", False)])
    def test_partitions_of_a_promoted_date_are_checked(self, lake: Lake, transform: str, is_same: bool) -> None:
        field = {"name": "p", "transform": transform, "source-id": 3, "field-id": 1000}
        lake.document["partition-specs"].append({"spec-id": 1, "fields": [field]})
        lake.document["last-partition-id"] = 1000
        states = evolve(lake, [column("date")], [column("timestamp")])
        if is_same:
            check_transition(*states, strict=True)
        else:
            refused(*states, "partition values would change")

    def test_table_without_data_can_change_freely(self) -> None:
        check_transition(*evolve(Lake(), [column("int")], [column("string")]), strict=True)

    @pytest.mark.parametrize("with_data", [False, True])
    def test_replaced_table_can_change_freely(self, lake: Lake, with_data: bool) -> None:
        base, _ = evolve(lake, [column("int")], [column("string")])
        if with_data:
            lake.snapshot([], "overwrite", parent_snapshot_id=None)
        else:
            del lake.document["current-snapshot-id"]
        check_transition(base, lake.table, strict=True)

    def test_data_of_ancestors_counts(self, lake: Lake) -> None:
        base, _ = evolve(lake, [column("int")], [column("string")])
        lake.append(lake.data_file())
        lake.append(lake.data_file())
        refused(base, lake.table, "cannot change its type")
