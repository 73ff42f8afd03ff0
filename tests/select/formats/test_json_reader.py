"""The typed reader of JSON lines returns the same columns as the general one, or none."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.select.dialect.paths import FieldName
from lakebed.select.errors import SelectError
from lakebed.select.execution.relation import ReadAs
from lakebed.select.formats.json_reader import typed_lines
from lakebed.select.formats.json_relation import LineReader, build
from lakebed.select.formats.value_columns import ValueColumns

NAMES = ("a", "b")
usual = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
    st.booleans(),
    st.floats(allow_nan=False, allow_infinity=False),
)
unusual = st.one_of(st.none(), st.integers(2**63, 2**70), st.lists(st.integers(), max_size=2), st.just({"c": 1}))


def made(sample: list[object], views: list[tuple[str, ReadAs | None]]) -> tuple[ValueColumns, list[str]]:
    columns = ValueColumns(sample)
    wanted = []
    for name, view in views:
        field = columns.field((FieldName(name),))
        wanted.append(columns.presence(field) if view is None else columns.column(field, view).name)
    return columns, list(dict.fromkeys(wanted))


def outcome(columns: ValueColumns, block: bytes, wanted: list[str], *, exactly: bool) -> object:
    reader = LineReader((), None)
    reader.columns = columns
    try:
        batch = build(columns, reader.values(block), wanted) if exactly else reader.read(block, wanted)
    except SelectError as refused:
        return refused.code
    return batch.to_pydict()


@pytest.mark.slow
@settings(max_examples=300)
@given(st.data())
def test_typed_reader_equals_the_general_one(data: st.DataObject) -> None:
    kinds = {name: data.draw(st.sampled_from(usual.original_strategies)) for name in NAMES}  # type: ignore[attr-defined]
    record = st.fixed_dictionaries({}, optional=kinds) | st.fixed_dictionaries(kinds)
    records: list[object] = data.draw(st.lists(st.fixed_dictionaries(kinds) | record, min_size=1, max_size=5))
    views = data.draw(st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from([None, *ReadAs])), min_size=1))
    columns, wanted = made(records, views)
    records += data.draw(
        st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, usual | unusual)), max_size=2)
    )
    ascii_only = data.draw(st.booleans())
    texts = [json.dumps(each, ensure_ascii=ascii_only) for each in records]
    texts += data.draw(
        st.lists(st.sampled_from(["", " ", '{"a":1}{"a":2}', "[1]", "{", '{"a":1,"a":2}', "7"]), max_size=1)
    )
    block = "\n".join(texts).encode() + data.draw(st.sampled_from([b"", b"\n"]))
    assert outcome(columns, block, wanted, exactly=False) == outcome(columns, block, wanted, exactly=True)


def test_fields_of_one_kind_are_read_as_columns() -> None:
    rows = [{"a": 1, "b": "x"}, {"a": 2, "b": 'y"'}]
    columns, wanted = made(list(rows), [("a", ReadAs.NUMBER), ("b", ReadAs.ANY), ("b", None)])
    lines = typed_lines(columns, wanted)
    assert lines is not None
    read = lines.read(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    assert read is not None
    assert read.to_pydict() == {"n0": [1, 2], "a1": ['"x"', '"y\\""'], "p1": [True, True]}
    assert read.schema.field("n0").type == pa.int64()


def test_invalid_utf8_is_left_to_the_general_reader() -> None:
    columns, wanted = made([{"a": "x"}], [("a", ReadAs.TEXT)])
    assert outcome(columns, b'{"a":"\xff"}\n', wanted, exactly=False) == "InvalidTextEncoding"
