"""Manifests with a matching partition are never pruned; those that PyIceberg prunes are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.expressions.visitors import inclusive_projection, manifest_evaluator
from pyiceberg.manifest import ManifestFile as PyManifestFile

from lakebed.iceberg.expressions.binding import ColumnNames, bind
from lakebed.iceberg.expressions.manifest_evaluator import may_match_manifest
from lakebed.iceberg.expressions.parsing import parse_expression
from lakebed.iceberg.expressions.partitions import BoundSpec
from lakebed.iceberg.expressions.projection import inclusive
from lakebed.iceberg.manifests import FieldSummary
from tests.catalog.scans.files import py_summary, summary_of
from tests.iceberg.expressions.columns import BY_NAME, COLUMNS, PY_SCHEMA, SCHEMA
from tests.iceberg.expressions.filters import (
    RandomFilter,
    Row,
    document,
    matches,
    random_filters,
    random_predicates,
    rows,
    to_pyiceberg,
)
from tests.iceberg.expressions.specs import a_layout, py_spec
from tests.iceberg.manifests.avro_files import a_manifest

NAMES = ColumnNames(SCHEMA)
FLOATING = ("float", "double")


pytestmark = pytest.mark.slow


def may_match(filter_: Any, layout: BoundSpec, summaries: tuple[FieldSummary, ...] | None) -> bool:
    partition_filter = inclusive(bind(parse_expression(filter_), NAMES), layout)
    return may_match_manifest(partition_filter, layout, a_manifest(partitions=summaries))


BY_ALL = a_layout(tuple((column.name, "identity") for column in COLUMNS))


@given(random_filters(), st.lists(rows(), min_size=1, max_size=4))
def test_manifest_with_a_matching_partition_is_never_pruned(drawn: RandomFilter, content: list[Row]) -> None:
    summaries = tuple(
        summary_of([row[column.name] for row in content], column.bound, floating=column.type in FLOATING)
        for column in COLUMNS
    )
    if any(matches(drawn, row) for row in content):
        assert may_match(document(drawn), BY_ALL, summaries)


@pytest.mark.parametrize("name", [column.name for column in COLUMNS if column.name not in ("tns", "u", "f", "d")])
@settings(max_examples=30)
@given(st.data())
def test_pyiceberg_prunes_the_same_manifests(name: str, data: st.DataObject) -> None:
    column = BY_NAME[name]
    drawn = data.draw(random_predicates([column]))
    content = data.draw(st.lists(rows([column]), min_size=1, max_size=4))
    summary = summary_of([row[name] for row in content], column.bound)
    fields = ((name, "identity"),)
    projected = inclusive_projection(PY_SCHEMA, py_spec(fields))(to_pyiceberg(drawn))
    evaluator = manifest_evaluator(py_spec(fields), PY_SCHEMA, projected, case_sensitive=True)
    theirs = evaluator(PyManifestFile.from_args(partitions=[py_summary(summary)]))
    ours = may_match(document(drawn), a_layout(fields), (summary,))
    # PyIceberg only compares the extremes of a set, not the values between the bounds.
    assert ours == theirs or (drawn[0] == "in" and theirs)


BY_F = a_layout((("f", "identity"),))
ONE = b"\x00\x00\x80\x3f"


@pytest.mark.parametrize(
    ("filter_", "summary", "expected"),
    [
        ({"type": "is-nan", "term": "f"}, FieldSummary(False, None, ONE, ONE), True),
        ({"type": "is-nan", "term": "f"}, FieldSummary(False, False, ONE, ONE), False),
        ({"type": "not-nan", "term": "f"}, FieldSummary(False, True, None, None), False),
        ({"type": "not-nan", "term": "f"}, FieldSummary(True, True, None, None), True),
        ({"type": "not-null", "term": "f"}, FieldSummary(True, True, None, None), True),
        ({"type": "not-null", "term": "f"}, FieldSummary(True, None, None, None), True),
        ({"type": "not-null", "term": "f"}, FieldSummary(True, False, None, None), False),
        ({"type": "gt", "term": "f", "value": 0}, FieldSummary(True, True, None, None), False),
        ({"type": "gt", "term": "f", "value": 0}, FieldSummary(False, False, ONE, ONE), True),
        ({"type": "gt", "term": "f", "value": 1}, FieldSummary(False, False, ONE, ONE), False),
        ({"type": "gt", "term": "f", "value": 1}, FieldSummary(False, False, b"?", b"?"), True),
        ({"type": "not-eq", "term": "f", "value": 1}, FieldSummary(False, False, ONE, ONE), True),
        ({"type": "not-eq", "term": "f", "value": 1}, FieldSummary(True, False, None, None), True),
    ],
    ids=str,
)
def test_summary_edge_cases(filter_: Any, summary: FieldSummary, expected: bool) -> None:
    assert may_match(filter_, BY_F, (summary,)) is expected


def test_manifest_without_summaries_is_read() -> None:
    filter_ = {"type": "gt", "term": "f", "value": 1}
    assert may_match(filter_, BY_F, None)
    assert may_match(filter_, BY_F, ())
    assert not may_match(False, BY_F, None)
    assert not may_match(False, BY_F, (FieldSummary(False, False, ONE, ONE),))


def test_text_is_compared_by_prefix() -> None:
    by_s = a_layout((("s", "identity"),))
    between = FieldSummary(False, None, b"abc", b"abe")
    assert not may_match({"type": "not-starts-with", "term": "s", "value": "ab"}, by_s, (between,))
    assert may_match({"type": "not-starts-with", "term": "s", "value": "abc"}, by_s, (between,))
    assert may_match(
        {"type": "not-starts-with", "term": "s", "value": "ab"}, by_s, (between._replace(contains_null=True),)
    )
    assert not may_match({"type": "starts-with", "term": "s", "value": "abf"}, by_s, (between,))
    assert not may_match({"type": "starts-with", "term": "s", "value": "abb"}, by_s, (between,))
