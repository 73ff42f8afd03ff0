from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lakebed.catalog.restrictions.copy_definition import CopyDefinition, define_copy, masked_columns
from lakebed.core.errors import AccessDenied
from lakebed.governance.policies import Restriction
from lakebed.governance.policies.column_masks import HIDDEN, Mask, MaskKind
from lakebed.iceberg.metadata import TableMetadata

from .subjects import FIELDS, a_restriction, a_schema, a_snapshot, a_table

SSN_AS_TAX = [*FIELDS[:2], {**FIELDS[2], "name": "tax"}, *FIELDS[3:]]


def definition(table: TableMetadata, restriction: Restriction, snapshot: int = 1) -> CopyDefinition:
    return define_copy(table, table.snapshots[snapshot], restriction)


def evolved(fields: list[dict[str, Any]]) -> TableMetadata:
    """A table whose first snapshot has the first schema, and the current one another."""
    return a_table(
        *a_snapshot(1),
        {"action": "add-schema", "schema": a_schema(*fields, schema_id=1)},
        {"action": "set-current-schema", "schema-id": -1},
        *a_snapshot(2, schema_id=1, **{"parent-snapshot-id": 1}),
    )


def test_definition_selects_filtered_masked_rows() -> None:
    table = a_table(*a_snapshot(1))
    made = definition(
        table,
        a_restriction(
            {"type": "eq", "term": "region", "value": "EU"}, {"type": "is-null", "term": "inner.a.b"}, ssn="hash"
        ),
    )
    assert made.columns == (
        "`id` AS `id`",
        "`region` AS `region`",
        "sha2(CAST(`ssn` AS BINARY), 256) AS `ssn`",
        "`born` AS `born`",
        "`inner` AS `inner`",
        "`tags` AS `tags`",
    )
    assert made.condition == "(`region` = CAST(X'4555' AS STRING)) AND (`inner`.`a.b` IS NULL)"


def test_copy_keeps_field_ids_and_all_columns_are_optional() -> None:
    made = definition(a_table(*a_snapshot(1)), a_restriction(True))
    assert [(field["id"], field["name"], field["type"]) for field in made.schema["fields"]] == [
        (field["id"], field["name"], field["type"]) for field in FIELDS
    ]
    assert not any(field["required"] for field in made.schema["fields"])
    assert "identifier-field-ids" not in made.schema


def test_mask_applies_to_every_column_that_ever_had_the_name() -> None:
    table = evolved(SSN_AS_TAX)
    for name in ("ssn", "tax", "TAX"):
        restriction = a_restriction(**{name: "null"})
        assert masked_columns(table, restriction) == {3: HIDDEN}
        assert "IF(FALSE, `ssn`, NULL) AS `ssn`" in definition(table, restriction, 1).columns
        assert "IF(FALSE, `tax`, NULL) AS `tax`" in definition(table, restriction, 2).columns
    both = masked_columns(table, a_restriction(ssn={"mask": "partial", "first": 3}, tax={"mask": "partial", "last": 3}))
    assert both == {3: Mask(MaskKind.PARTIAL)}


@pytest.mark.parametrize("name", ["inner.a.b", "tags.element"])
def test_mask_of_a_nested_field_hides_the_column(name: str) -> None:
    table = a_table(*a_snapshot(1))
    (masked,) = masked_columns(table, a_restriction(**{name: "year"})).items()
    assert masked == ({"inner.a.b": 5, "tags.element": 7}[name], HIDDEN)


def test_masks_of_missing_columns_change_nothing() -> None:
    assert masked_columns(a_table(), a_restriction(other="null")) == {}


def test_filter_applies_to_the_column_with_the_name_now() -> None:
    # The former `ssn` is `born` now, and the former `born` was dropped.
    table = evolved([*FIELDS[:2], {**FIELDS[2], "name": "born"}, *FIELDS[4:]])
    restriction = a_restriction({"type": "is-null", "term": "born"})
    assert definition(table, restriction, 2).condition == "(`born` IS NULL)"
    # Not pushed down by Spark: Iceberg would look for `ssn` among the current columns.
    assert definition(table, restriction, 1).condition == "((`ssn` IS NULL)) <=> (rand() >= 0)"
    for snapshot in (1, 2):
        with pytest.raises(AccessDenied, match="no column 'ssn'"):
            definition(table, a_restriction({"type": "is-null", "term": "ssn"}), snapshot)


def test_rows_older_than_a_column_have_null() -> None:
    table = evolved([*FIELDS, {"id": 9, "name": "later", "required": False, "type": "int"}])
    restriction = a_restriction({"type": "eq", "term": "later", "value": 1})
    assert definition(table, restriction, 1).condition == "(NULL = CAST('1' AS BIGINT))"
    assert definition(table, restriction, 2).condition == "(`later` = CAST('1' AS BIGINT))"


@pytest.mark.parametrize(
    "document",
    [
        {"type": "eq", "term": "nowhere", "value": 1},
        {"type": "eq", "term": "id", "value": "one"},
        {"type": "is-null", "term": "tags.element"},
        {"type": "eq", "term": "inner", "value": 1},
    ],
)
def test_inapplicable_filter_denies_access(document: Any) -> None:
    with pytest.raises(AccessDenied, match=r"ns\.p v0"):
        definition(a_table(*a_snapshot(1)), a_restriction(document))


def test_column_names_match_in_any_case_unless_ambiguous() -> None:
    fields = [*FIELDS, {"id": 9, "name": "Region", "required": False, "type": "string"}]
    table = a_table(*a_snapshot(1), fields=fields)
    assert definition(table, a_restriction({"type": "is-null", "term": "Region"})).condition == "(`Region` IS NULL)"
    with pytest.raises(AccessDenied):
        definition(table, a_restriction({"type": "is-null", "term": "REGION"}))
    assert definition(table, a_restriction({"type": "is-null", "term": "BORN"})).condition == "(`born` IS NULL)"


def test_digest_identifies_the_definition() -> None:
    table = a_table(*a_snapshot(1))
    one, again = definition(table, a_restriction(False)), definition(table, a_restriction(False, key="other"))
    assert one.digest == again.digest
    others = {
        definition(table, a_restriction(True)).digest,
        definition(table, a_restriction(False, ssn="null")).digest,
        definition(evolved(SSN_AS_TAX), a_restriction(False), 2).digest,
    }
    assert len(others | {one.digest}) == 4
    assert msgspec.json.encode(one.schema)
