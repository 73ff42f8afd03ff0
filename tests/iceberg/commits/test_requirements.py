from __future__ import annotations

from dataclasses import replace

import pytest

from lakebed.core.errors import CommitConflict, InvalidInput
from lakebed.iceberg.commits import (
    check_table,
    check_view,
    is_create,
    parse_table_requirements,
    parse_view_requirements,
)

from ..samples import OTHER_UUID, UUID, Json, add_snapshot, commit, dump, make_table, make_view, partition, set_ref

TABLE = commit(make_table(spec=[partition(2, "day", "d")]), add_snapshot(10, 1), set_ref(10), set_ref(10, "t", "tag"))


def require(kind: str, **fields: object) -> Json:
    return {"type": kind, **{name.replace("_", "-"): value for name, value in fields.items()}}


@pytest.mark.parametrize(
    "requirement",
    [
        require("assert-table-uuid", uuid=UUID),
        require("assert-table-uuid", uuid=UUID.upper()),
        require("assert-ref-snapshot-id", ref="main", snapshot_id=10),
        require("assert-ref-snapshot-id", ref="other", snapshot_id=None),
        require("assert-ref-snapshot-id", ref="other"),
        require("assert-last-assigned-field-id", last_assigned_field_id=6),
        require("assert-current-schema-id", current_schema_id=0),
        require("assert-last-assigned-partition-id", last_assigned_partition_id=1000),
        require("assert-default-spec-id", default_spec_id=0),
        require("assert-default-sort-order-id", default_sort_order_id=0),
    ],
)
def test_fulfilled_requirements_pass(requirement: Json) -> None:
    check_table(parse_table_requirements(dump([requirement])), TABLE)


@pytest.mark.parametrize(
    ("requirement", "message", "expected", "found"),
    [
        (require("assert-create"), "table already exists", None, UUID),
        (
            require("assert-table-uuid", uuid=OTHER_UUID),
            f"UUID does not match: expected {OTHER_UUID} != {UUID}",
            OTHER_UUID,
            UUID,
        ),
        (
            require("assert-ref-snapshot-id", ref="main", snapshot_id=9),
            "branch main has changed: expected id 9 != 10",
            9,
            10,
        ),
        (require("assert-ref-snapshot-id", ref="t", snapshot_id=9), "tag t has changed: expected id 9 != 10", 9, 10),
        (
            require("assert-ref-snapshot-id", ref="main", snapshot_id=None),
            "branch main was created concurrently",
            None,
            10,
        ),
        (
            require("assert-ref-snapshot-id", ref="other", snapshot_id=9),
            "branch or tag other is missing, expected 9",
            9,
            None,
        ),
        (
            require("assert-last-assigned-field-id", last_assigned_field_id=3),
            "last assigned field id changed: expected id 3 != 6",
            3,
            6,
        ),
        (
            require("assert-current-schema-id", current_schema_id=1),
            "current schema changed: expected id 1 != 0",
            1,
            0,
        ),
        (
            require("assert-last-assigned-partition-id", last_assigned_partition_id=999),
            "last assigned partition id changed: expected id 999 != 1000",
            999,
            1000,
        ),
        (
            require("assert-default-spec-id", default_spec_id=4),
            "default partition spec changed: expected id 4 != 0",
            4,
            0,
        ),
        (
            require("assert-default-sort-order-id", default_sort_order_id=4),
            "default sort order changed: expected id 4 != 0",
            4,
            0,
        ),
    ],
)
def test_failed_requirements_report_expected_and_found(
    requirement: Json, message: str, expected: object, found: object
) -> None:
    with pytest.raises(CommitConflict) as caught:
        check_table(parse_table_requirements(dump([requirement])), TABLE)
    assert str(caught.value) == f"Requirement failed: {message}"
    assert caught.value.condition == requirement["type"]
    assert (caught.value.expected, caught.value.found) == (expected, found)


def test_missing_table_can_only_be_created() -> None:
    check_table(parse_table_requirements(dump([require("assert-create")])), None)
    with pytest.raises(CommitConflict, match="Requirement failed: table does not exist") as caught:
        check_table(parse_table_requirements(dump([require("assert-current-schema-id", current_schema_id=0)])), None)
    assert caught.value.condition == "assert-current-schema-id"


def test_all_requirements_are_checked() -> None:
    written = [
        require("assert-current-schema-id", current_schema_id=0),
        require("assert-default-spec-id", default_spec_id=7),
    ]
    with pytest.raises(CommitConflict, match="default partition spec changed"):
        check_table(parse_table_requirements(dump(written)), TABLE)


def test_table_without_uuid_matches_no_uuid() -> None:
    nameless = replace(make_table(1), uuid=None)
    with pytest.raises(CommitConflict, match="UUID does not match"):
        check_table(parse_table_requirements(dump([require("assert-table-uuid", uuid=UUID)])), nameless)


def test_assert_create_must_be_the_only_requirement() -> None:
    assert is_create(parse_table_requirements(dump([require("assert-create")])))
    assert not is_create(parse_table_requirements(b"[]"))
    assert not is_create(parse_table_requirements(dump([require("assert-table-uuid", uuid=UUID)])))
    with pytest.raises(InvalidInput, match="assert-create must be the only requirement"):
        is_create(parse_table_requirements(dump([require("assert-create"), require("assert-table-uuid", uuid=UUID)])))


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ([require("assert-nothing")], r"requirements\[0\]: unknown table requirement. type=assert-nothing"),
        ([require("assert-view-uuid", uuid=UUID)], "unknown table requirement. type=assert-view-uuid"),
        ([{}], r"requirements\[0\]: object missing required field `type`"),
        ([require("assert-table-uuid")], r"requirements\[0\]: object missing required field `uuid`"),
        (
            [require("assert-current-schema-id", current_schema_id="x")],
            r"requirements\[0\].current-schema-id: expected",
        ),
        ({}, "requirements: expected `array`, got `object`"),
    ],
)
def test_invalid_requirements_are_rejected(written: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse_table_requirements(dump(written))


def test_view_uuid_must_match() -> None:
    view = make_view()
    check_view(parse_view_requirements(dump([require("assert-view-uuid", uuid=UUID.upper())])), view)
    with pytest.raises(CommitConflict, match="Requirement failed: view UUID does not match") as caught:
        check_view(parse_view_requirements(dump([require("assert-view-uuid", uuid=OTHER_UUID)])), view)
    assert caught.value.condition == "assert-view-uuid"
    assert (caught.value.expected, caught.value.found) == (OTHER_UUID, UUID)


def test_requirements_of_tables_and_views_are_not_mixed() -> None:
    of_tables = parse_table_requirements(dump([require("assert-table-uuid", uuid=UUID)]))
    of_views = parse_view_requirements(dump([require("assert-view-uuid", uuid=UUID)]))
    with pytest.raises(InvalidInput, match=r"not a requirement of views\. type=assert-table-uuid"):
        check_view(of_tables, make_view())
    with pytest.raises(InvalidInput, match=r"not a requirement of tables\. type=assert-view-uuid"):
        check_table(of_views, TABLE)
    with pytest.raises(InvalidInput, match=r"unknown view requirement\. type=assert-table-uuid"):
        parse_view_requirements(dump([require("assert-table-uuid", uuid=UUID)]))
