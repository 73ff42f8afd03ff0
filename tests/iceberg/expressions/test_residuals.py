"""The residual of a filter agrees with the filter for each row of its partition, and is as short as PyIceberg's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue
from pyiceberg.expressions.visitors import bind as py_bind
from pyiceberg.expressions.visitors import residual_evaluator_of, rewrite_not
from pyiceberg.typedef import Record

from lakebed.iceberg.expressions.bound import BoundPredicate, evaluate, predicate_matches
from lakebed.iceberg.expressions.rendering import render_filter
from lakebed.iceberg.expressions.residuals import ResidualEvaluator
from lakebed.iceberg.expressions.unbound import FALSE, TRUE
from tests.iceberg.expressions.columns import BY_NAME, PY_SCHEMA, ColumnSample
from tests.iceberg.expressions.filters import document, matches, random_filters, random_predicates, rows, to_pyiceberg
from tests.iceberg.expressions.specs import Fields, a_layout, py_spec
from tests.iceberg.expressions.test_projection import COMPARED, bound, made, partitioned

pytestmark = pytest.mark.slow


@given(partitioned(), st.data())
def test_residual_agrees_with_the_filter(spec: tuple[Fields, list[ColumnSample]], data: st.DataObject) -> None:
    fields, columns = spec
    drawn, row = data.draw(random_filters(columns)), data.draw(rows(columns))
    for rounded_up in (False, True):
        partition = made(row, fields, rounded_up=rounded_up)
        residual = ResidualEvaluator(bound(document(drawn)), a_layout(fields)).of(partition)

        def passes(claim: BoundPredicate) -> bool:
            return predicate_matches(claim, row[claim.term.name])

        assert evaluate(residual, passes) == matches(drawn, row)


@pytest.mark.parametrize("pair", [pair for pair in COMPARED if pair[0] in ("i", "s", "ts")], ids="-".join)
@settings(max_examples=30)
@given(st.data())
def test_residuals_agree_with_pyiceberg(pair: tuple[str, str], data: st.DataObject) -> None:
    column = BY_NAME[pair[0]]
    if pair[0] == "ts":  # PyIceberg does not allow for old writers
        column = BY_NAME["ts"].after_1970
    # PyIceberg cannot compare a null partition.
    drawn, row = data.draw(random_predicates([column])), {column.name: data.draw(column.values)}
    partition = made(row, (pair,))
    expression = py_bind(PY_SCHEMA, rewrite_not(to_pyiceberg(drawn)), case_sensitive=True)
    theirs = residual_evaluator_of(py_spec((pair,)), expression, True, PY_SCHEMA).residual_for(Record(*partition))
    ours = ResidualEvaluator(bound(document(drawn)), a_layout((pair,))).of(partition)
    assert (ours == TRUE, ours == FALSE) == (theirs == AlwaysTrue(), theirs == AlwaysFalse())


DAY = 86_400_000_000
BETWEEN: Any = {
    "type": "and",
    "left": {"type": "gt-eq", "term": "ts", "value": "2017-11-16T12:00:00"},
    "right": {"type": "lt", "term": "ts", "value": "2017-11-18T12:00:00"},
}


@pytest.mark.parametrize(
    ("day", "expected"),
    [(17_485, False), (17_486, BETWEEN["left"]), (17_487, True), (17_488, BETWEEN["right"]), (17_489, False)],
)
def test_residual_applies_only_to_days_at_the_ends_of_a_range(day: int, expected: Any) -> None:
    residual = ResidualEvaluator(bound(BETWEEN), a_layout((("ts", "day"),))).of((day,))
    left = expected if isinstance(expected, bool) else {**expected, "value": expected["value"] + ".000000"}
    assert render_filter(residual) == left


def test_unpartitioned_residual_is_the_filter() -> None:
    condition = bound(BETWEEN)
    assert ResidualEvaluator(condition, a_layout(())).of(()) == condition
    assert ResidualEvaluator(condition, a_layout((("ts", "void"),))).of((None,)) == condition


def test_nan_is_a_partition_value() -> None:
    residuals = ResidualEvaluator(bound({"type": "is-nan", "term": "d"}), a_layout((("d", "identity"),)))
    assert residuals.of((float("nan"),)) == TRUE
    assert residuals.of((float("nan"),)) is residuals.of((float("nan"),))
    assert residuals.of((1.0,)) == FALSE
    assert residuals.of((None,)) == FALSE
