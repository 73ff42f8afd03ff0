from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.schema import Aggregation, AggregationFunction, Schema
from lakebed.fluss.types import DataType, RowField, TypeRoot
from lakebed.streams.schema_evolution import (
    AddColumn,
    AlterConfigOp,
    ColumnPosition,
    OptionChange,
    changed_options,
    evolved,
    with_columns,
)
from lakebed.streams.table import TableDefinition

INT, STRING = DataType(TypeRoot.INT), DataType(TypeRoot.STRING)
LOG = Schema.of([("id", INT), ("name", STRING)])
KEYED = Schema.of([("id", INT.of(is_nullable=False)), ("total", INT)], primary_key=["id"])


def refused(reason: ErrorCode = ErrorCode.INVALID_ALTER_TABLE) -> pytest.RaisesExc[FlussError]:
    return pytest.RaisesExc(FlussError, check=lambda failure: failure.code is reason)


def test_added_columns_are_last_and_in_order() -> None:
    after = with_columns(LOG, [AddColumn("a", INT, comment="first"), AddColumn("b", STRING)])
    assert after.names == ("id", "name", "a", "b")
    assert [column.id for column in after.columns] == [0, 1, 2, 3]
    assert after.columns[2].comment == "first"
    assert after.columns[:2] == LOG.columns


def test_nested_fields_get_ids() -> None:
    row = DataType(TypeRoot.ROW, fields=(RowField("x", INT), RowField("y", STRING)))
    after = with_columns(LOG, [AddColumn("point", row), AddColumn("last", INT)])
    assert after.columns[2].type.nested_ids() == [3, 4]
    assert after.columns[3].id == 5
    # Requested again without the ids, which only the server assigns.
    assert with_columns(after, [AddColumn("point", row)]) is after


@pytest.mark.parametrize(
    "added",
    [
        AddColumn("a", INT, ColumnPosition.FIRST),
        AddColumn("a", INT, ColumnPosition.AFTER),
        AddColumn("a", INT, 7),
        AddColumn("a", INT.of(is_nullable=False)),
        AddColumn("__offset", INT),
        AddColumn("name", INT),
        AddColumn("name", STRING, comment="another"),
        AddColumn("a", INT, aggregation=Aggregation(AggregationFunction.SUM)),
        AddColumn("", INT),
    ],
)
def test_invalid_columns_are_rejected(added: AddColumn) -> None:
    with refused():
        with_columns(LOG, [added])


def test_added_columns_can_aggregate_if_their_type_allows() -> None:
    total = Aggregation(AggregationFunction.SUM)
    assert with_columns(KEYED, [AddColumn("a", INT, aggregation=total)]).columns[2].aggregation == total
    with refused():
        with_columns(KEYED, [AddColumn("a", STRING, aggregation=total)])


def test_option_changes() -> None:
    before = {"a": "1", "list": "x, y"}
    changes = [
        OptionChange("a", AlterConfigOp.DELETE),
        OptionChange("b", AlterConfigOp.SET, "2"),
        OptionChange("list", AlterConfigOp.APPEND, "z"),
        OptionChange("list", AlterConfigOp.APPEND, "x"),
        OptionChange("list", AlterConfigOp.SUBTRACT, "y"),
        OptionChange("new", AlterConfigOp.APPEND, "1"),
    ]
    assert changed_options(before, changes) == {"b": "2", "list": "x,z", "new": "1"}
    assert before == {"a": "1", "list": "x, y"}
    assert changed_options({"new": "1"}, [OptionChange("new", AlterConfigOp.SUBTRACT, "1")]) == {}


@pytest.mark.parametrize("change", [OptionChange("a", AlterConfigOp.SET), OptionChange("a", 9, "x")])
def test_invalid_option_changes_are_rejected(change: OptionChange) -> None:
    with refused():
        changed_options({}, [change])


def test_immutable_unknown_and_invalid_options_are_rejected() -> None:
    definition = TableDefinition(LOG)
    with refused():
        evolved(definition, changes=[OptionChange("table.log.format", AlterConfigOp.SET, "ARROW")])
    with refused():
        evolved(definition, changes=[OptionChange("table.nonsense", AlterConfigOp.SET, "x")])
    with refused(ErrorCode.INVALID_CONFIG):
        evolved(definition, changes=[OptionChange("table.log.ttl", AlterConfigOp.SET, "soon")])


def test_table_above_the_bucket_limit_can_be_altered() -> None:
    definition = TableDefinition(LOG, bucket_count=5000)
    assert evolved(definition, [AddColumn("a", INT)]).bucket_count == 5000


@given(st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=12))
def test_adding_columns_is_idempotent(names: list[str]) -> None:
    added = [AddColumn(name, INT) for name in names]
    once = evolved(TableDefinition(LOG), added)
    assert evolved(once, added) is once
    assert len({column.id for column in once.schema.columns}) == len(once.schema.columns)
    assert once.schema.columns[:2] == LOG.columns
