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


def test_columns_come_behind_the_last_in_their_order() -> None:
    after = with_columns(LOG, [AddColumn("a", INT, comment="first"), AddColumn("b", STRING)])
    assert after.names == ("id", "name", "a", "b")
    assert [column.id for column in after.columns] == [0, 1, 2, 3]
    assert after.columns[2].comment == "first"
    assert after.columns[:2] == LOG.columns


def test_nested_fields_have_ids_of_their_own() -> None:
    row = DataType(TypeRoot.ROW, fields=(RowField("x", INT), RowField("y", STRING)))
    after = with_columns(LOG, [AddColumn("point", row), AddColumn("last", INT)])
    assert after.columns[2].type.nested_ids() == [3, 4]
    assert after.columns[3].id == 5
    # Asked for once more, without the ids that nobody but the server knows.
    assert with_columns(after, [AddColumn("point", row)]) is after


@pytest.mark.parametrize(
    "wanted",
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
def test_what_is_not_added(wanted: AddColumn) -> None:
    with refused():
        with_columns(LOG, [wanted])


def test_columns_of_aggregating_tables() -> None:
    total = Aggregation(AggregationFunction.SUM)
    assert with_columns(KEYED, [AddColumn("a", INT, aggregation=total)]).columns[2].aggregation == total
    with refused():
        with_columns(KEYED, [AddColumn("a", STRING, aggregation=total)])


def test_options() -> None:
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
def test_what_is_no_change(change: OptionChange) -> None:
    with refused():
        changed_options({}, [change])


def test_options_of_tables_that_stay() -> None:
    definition = TableDefinition(LOG)
    with refused():
        evolved(definition, changes=[OptionChange("table.log.format", AlterConfigOp.SET, "ARROW")])
    with refused():
        evolved(definition, changes=[OptionChange("table.nonsense", AlterConfigOp.SET, "x")])
    with refused(ErrorCode.INVALID_CONFIG):
        evolved(definition, changes=[OptionChange("table.log.ttl", AlterConfigOp.SET, "soon")])


def test_a_table_of_more_buckets_than_new_ones_may_have_can_change() -> None:
    definition = TableDefinition(LOG, bucket_count=5000)
    assert evolved(definition, [AddColumn("a", INT)]).bucket_count == 5000


@given(st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=12))
def test_asking_twice_is_asking_once(names: list[str]) -> None:
    wanted = [AddColumn(name, INT) for name in names]
    once = evolved(TableDefinition(LOG), wanted)
    assert evolved(once, wanted) is once
    assert len({column.id for column in once.schema.columns}) == len(once.schema.columns)
    assert once.schema.columns[:2] == LOG.columns
