"""Projection keeps columns of any type intact, and rejects noise with an error."""

from __future__ import annotations

import decimal
from contextlib import suppress
from itertools import combinations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.fluss.errors import FlussError
from lakebed.fluss.log_batches import iterate_batches, write_batch
from lakebed.streams.log.reading.projection import ColumnShape, project, shape_of
from tests.contracts.stream_log import arrow_body

TABLE = pa.record_batch(
    {
        "flag": pa.array([True, None, False]),
        "name": pa.array(["a", None, "ccc"]),
        "price": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("2.25")], pa.decimal128(10, 2)),
        "code": pa.array([b"abcd", b"efgh", None], pa.binary(4)),
        "tags": pa.array([{"x": 1}, None, {"y": 2, "z": 3}], pa.map_(pa.string(), pa.int32())),
        "place": pa.array(
            [{"lat": 1.0, "names": ["p", "q"]}, None, {"lat": None, "names": []}],
            pa.struct([("lat", pa.float64()), ("names", pa.list_(pa.string()))]),
        ),
        "at": pa.array([1, 2, None], pa.timestamp("us")),
    }
)
SHAPES = [shape_of(field.type) for field in TABLE.schema]
BODY = arrow_body(TABLE)


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_projected_columns_of_any_type_are_intact(compression: str | None) -> None:
    body = arrow_body(TABLE, compression)
    (batch,) = iterate_batches(write_batch(body, 3, schema_id=1))
    for count in (1, 2, 7):
        for columns in combinations(range(7), count):
            (taken,) = iterate_batches(b"".join(project(batch, columns, SHAPES)))
            schema = pa.schema([TABLE.schema.field(at) for at in columns])
            found = pa.ipc.read_record_batch(pa.py_buffer(taken.body), schema)
            found.validate(full=True)
            assert found.equals(TABLE.select(list(columns)))


def test_change_types_stay_before_the_columns() -> None:
    (batch,) = iterate_batches(write_batch(b"\x01\x02\x03" + BODY, 3, schema_id=1, attributes=0))
    (taken,) = iterate_batches(b"".join(project(batch, [1], SHAPES)))
    assert bytes(taken.body[:3]) == b"\x01\x02\x03"
    found = pa.ipc.read_record_batch(pa.py_buffer(taken.body[3:]), pa.schema([TABLE.schema.field(1)]))
    assert found.column(0).to_pylist() == ["a", None, "ccc"]


def test_columns_added_after_a_batch_are_omitted() -> None:
    (batch,) = iterate_batches(write_batch(BODY, 3, schema_id=1))
    (taken,) = iterate_batches(b"".join(project(batch, [1, 9], SHAPES)))
    found = pa.ipc.read_record_batch(pa.py_buffer(taken.body), pa.schema([TABLE.schema.field(1)]))
    assert found.num_columns == 1


def test_columns_of_another_schema_are_rejected() -> None:
    (batch,) = iterate_batches(write_batch(BODY, 3, schema_id=1))
    with pytest.raises(FlussError):
        project(batch, [0], [*SHAPES, ColumnShape(1, 2)])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 700), st.integers(0, 255)), min_size=1, max_size=6), st.integers(0, 600))
def test_noise_is_rejected_or_read_but_never_crashes(changes: list[tuple[int, int]], cut: int) -> None:
    bad = bytearray(BODY)
    for position, byte in changes:
        bad[position % len(bad)] = byte
    (batch,) = iterate_batches(write_batch(bytes(bad[: len(bad) - cut]), 3, schema_id=1))
    with suppress(FlussError):
        project(batch, [0, 3], SHAPES)
