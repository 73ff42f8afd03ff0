"""Updates of schemas, partition specs and sort orders."""

from __future__ import annotations

import pytest

from lakebed.core.errors import CommitConflict, InvalidInput

from ..samples import (
    COLUMNS,
    Json,
    action,
    add_snapshot,
    column,
    commit,
    make_table,
    partition,
    schema,
    set_ref,
    sort,
    written,
)

WIDER: Json = {**COLUMNS, "fields": [*COLUMNS["fields"], column(7, "extra", "int")]}
NARROWER: Json = {**COLUMNS, "fields": COLUMNS["fields"][:2]}


def add_schema(document: Json) -> Json:
    return action("add-schema", schema=document)


def add_spec(*fields: Json, spec_id: int = 0) -> Json:
    return action("add-spec", spec={"spec-id": spec_id, "fields": list(fields)})


def add_order(*fields: Json, order_id: int = 0) -> Json:
    return action("add-sort-order", sort_order={"order-id": order_id, "fields": list(fields)})


CURRENT = action("set-current-schema", schema_id=-1)
DEFAULT_SPEC = action("set-default-spec", spec_id=-1)
DEFAULT_ORDER = action("set-default-sort-order", sort_order_id=-1)


def test_new_schema_gets_the_next_id() -> None:
    after = commit(make_table(), add_schema({**WIDER, "schema-id": 0}))
    assert list(after.schemas) == [0, 1]
    assert after.schemas[1].id == 1
    assert after.current_schema_id == 0
    assert after.last_column_id == 7
    assert written(after)["schemas"][1]["schema-id"] == 1


def test_last_added_schema_becomes_current() -> None:
    after = commit(make_table(), add_schema(WIDER), CURRENT)
    assert after.current_schema_id == 1
    assert after.schema.columns[7].name == "extra"


def test_equal_schema_is_reused_and_counts_as_last_added() -> None:
    base = commit(make_table(), add_schema(WIDER), CURRENT)
    assert commit(base, add_schema({**WIDER, "schema-id": 9})) is base
    back = commit(base, add_schema(COLUMNS), CURRENT)
    assert back.current_schema_id == 0
    assert list(back.schemas) == [0, 1]


def test_highest_column_id_never_decreases() -> None:
    base = commit(make_table(), add_schema(WIDER), CURRENT)
    after = commit(base, add_schema(NARROWER), CURRENT)
    assert after.last_column_id == 7
    assert commit(make_table(), {**add_schema(NARROWER), "last-column-id": 99}).last_column_id == 6


def test_known_schema_becomes_current_by_id() -> None:
    base = commit(make_table(), add_schema(WIDER), CURRENT)
    assert commit(base, action("set-current-schema", schema_id=0)).current_schema_id == 0
    assert commit(base, action("set-current-schema", schema_id=1)) is base


@pytest.mark.parametrize(
    ("update", "message"),
    [
        (action("set-current-schema", schema_id=5), "there is no schema of that id. id=5"),
        (CURRENT, "the last added schema cannot be set: this commit adds none"),
        (action("set-default-spec", spec_id=5), "there is no partition spec of that id. id=5"),
        (DEFAULT_SPEC, "the last added partition spec cannot be set: this commit adds none"),
        (action("set-default-sort-order", sort_order_id=5), "there is no sort order of that id. id=5"),
        (DEFAULT_ORDER, "the last added sort order cannot be set: this commit adds none"),
        (action("remove-schemas", schema_ids=[0]), "the current schema cannot be removed. schema=0"),
        (action("remove-partition-specs", spec_ids=[0]), "the default partition spec cannot be removed. spec=0"),
        (add_schema(schema(column(1, "a", "variant"))), "requires format version 3"),
        (add_schema(schema(column(1, "a", "text"))), "add-schema: schema: column a: no such data type"),
        (add_spec(partition(99, "day", "d")), "does not have. id=99"),
        (add_order(sort(99)), "does not have. id=99"),
        (add_schema({"type": "struct"}), "add-schema: schema: object missing required field `fields`"),
    ],
)
def test_invalid_updates_are_rejected(update: Json, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        commit(make_table(), update)


def test_version_3_types_are_accepted() -> None:
    after = commit(make_table(3), add_schema({**COLUMNS, "fields": [*COLUMNS["fields"], column(7, "v", "variant")]}))
    assert after.schemas[1].columns[7].type == "variant"


def test_unused_schemas_are_removed() -> None:
    base = commit(make_table(), add_schema(WIDER), CURRENT)
    after = commit(base, action("remove-schemas", schema_ids=[0, 77]))
    assert list(after.schemas) == [1]
    assert commit(base, action("remove-schemas", schema_ids=[77])) is base


def test_schema_of_a_snapshot_cannot_be_removed() -> None:
    base = commit(make_table(), add_snapshot(1, 1, schema_id=0), set_ref(1), add_schema(WIDER), CURRENT)
    with pytest.raises(CommitConflict, match=r"schema is used by a snapshot\. schema=0 snapshot=1"):
        commit(base, action("remove-schemas", schema_ids=[0]))
    both = commit(base, action("remove-schemas", schema_ids=[0]), action("remove-snapshots", snapshot_ids=[1]))
    assert list(both.schemas) == [1]


def test_removed_ids_are_not_reassigned_in_the_same_commit() -> None:
    base = commit(make_table(), add_schema(WIDER), add_spec(partition(1, "identity", "id")))
    after = commit(base, action("remove-schemas", schema_ids=[1]), add_schema(WIDER))
    assert list(after.schemas) == [0, 2]
    other = add_spec(partition(3, "identity", "name"))
    assert list(commit(base, action("remove-partition-specs", spec_ids=[1]), other).specs) == [0, 2]


def test_new_spec_gets_new_field_ids() -> None:
    base = make_table(spec=[partition(2, "day", "d")])
    after = commit(base, add_spec(partition(1, "bucket[4]", "b"), partition(2, "day", "d")), DEFAULT_SPEC)
    assert after.default_spec_id == 1
    assert [field.field_id for field in after.spec.fields] == [1001, 1000]
    assert after.last_partition_id == 1001
    assert commit(after, add_spec(partition(2, "day", "d")), DEFAULT_SPEC).default_spec_id == 0
    assert commit(after, add_spec()).last_partition_id == 1001


def test_spec_is_bound_to_the_schema_current_at_its_update() -> None:
    after = commit(make_table(), add_schema(WIDER), CURRENT, add_spec(partition(7, "identity", "extra")), DEFAULT_SPEC)
    assert after.spec.fields[0].sources == (7,)
    with pytest.raises(InvalidInput, match=r"does not have\. id=7"):
        commit(make_table(), add_spec(partition(7, "identity", "extra")), add_schema(WIDER), CURRENT)


def test_schema_must_keep_source_columns_of_default_spec_and_order() -> None:
    partitioned = make_table(spec=[partition(3, "identity", "name")])
    with pytest.raises(InvalidInput, match="partition field name has a source column that the current schema"):
        commit(partitioned, add_schema(NARROWER), CURRENT)
    ordered = make_table(order=[sort(3)])
    with pytest.raises(InvalidInput, match="sort field has a source column that the current schema"):
        commit(ordered, add_schema(NARROWER), CURRENT)
    after = commit(partitioned, add_spec(), DEFAULT_SPEC, add_schema(NARROWER), CURRENT)
    assert after.current_schema_id == 1


def test_removed_specs_keep_their_field_ids_reserved() -> None:
    base = make_table(spec=[partition(2, "day", "d")])
    base = commit(base, add_spec(partition(1, "identity", "id")), DEFAULT_SPEC)
    after = commit(base, action("remove-partition-specs", spec_ids=[0]))
    assert list(after.specs) == [1]
    assert after.last_partition_id == 1001
    assert commit(after, action("remove-partition-specs", spec_ids=[0])) is after


def test_orders_get_ids_and_are_reused() -> None:
    base = make_table()
    after = commit(base, add_order(sort(1)), DEFAULT_ORDER)
    assert after.default_sort_order_id == 1
    assert commit(after, add_order(sort(1), order_id=8), DEFAULT_ORDER) is after
    assert commit(after, add_order(), DEFAULT_ORDER).default_sort_order_id == 0


def test_version_1_keeps_dropped_partition_fields_as_void() -> None:
    base = make_table(1, spec=[partition(2, "day", "d")])
    with pytest.raises(InvalidInput, match="must be numbered from 1000 without gaps"):
        commit(base, add_spec(partition(1, "identity", "id", 1001)))
    after = commit(base, add_spec(partition(2, "void", "d", 1000), partition(1, "identity", "id", 1001)), DEFAULT_SPEC)
    assert written(after)["partition-spec"] == written(after)["partition-specs"][1]["fields"]
