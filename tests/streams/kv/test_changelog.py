from __future__ import annotations

import struct

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.fluss.arrow_types import arrow_schema
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.log_batches import has_valid_checksum, read_header
from lakebed.fluss.rows.fields import RowFormat
from lakebed.fluss.rows.layout import RowLayout
from lakebed.fluss.schema import Schema
from lakebed.fluss.types import DataType, TypeRoot
from lakebed.streams.kv.changelog import (
    ChangelogFormat,
    ChangelogRecords,
    ChangelogRenderer,
    read_changes,
    write_changes,
)
from lakebed.streams.kv.table import KvSettings, KvTable
from tests.fluss.rows.plain_rows import arrow_columns
from tests.fluss.rows.test_layout import fit_char
from tests.fluss.strategies import plain_types, rows, schemas

OLD = Schema.of([("k", DataType(TypeRoot.INT)), ("a", DataType(TypeRoot.STRING))], primary_key=["k"])
NEW = OLD.with_column("b", DataType(TypeRoot.DOUBLE))
SCHEMAS = {1: OLD, 2: NEW}


def value(schema_id: int, *row: object) -> bytes:
    layout = RowLayout(RowFormat.COMPACTED, [column.type for column in SCHEMAS[schema_id].columns])
    return schema_id.to_bytes(2, "little") + layout.encode(row)


CHANGES = ChangelogRecords(
    bytearray((1, 2, 3, 4)),
    [b"k1", b"", b"k1", b"k2"],
    [value(1, 1, "a"), value(1, 1, "a"), value(2, 1, "b", 0.5), value(2, 2, None, None)],
)


def test_stored_changes_are_replayed() -> None:
    batch = read_header(memoryview(write_changes(CHANGES, 2, writer_id=7, sequence=3)))
    assert has_valid_checksum(batch)
    assert (batch.writer_id, batch.sequence, batch.record_count, batch.last_offset_delta) == (7, 3, 4, 3)
    assert read_changes(batch) == CHANGES


@pytest.mark.parametrize("compression", ["zstd", "lz4", None])
def test_rows_of_several_schemas_are_rendered_in_the_schema_of_the_batch(compression: str | None) -> None:
    rendering = ChangelogRenderer(SCHEMAS.__getitem__, RowFormat.COMPACTED, compression=compression)
    stored = bytearray(write_changes(CHANGES, 2, writer_id=7, sequence=3))
    struct.pack_into("<q", stored, 0, 1000)
    rendered = read_header(memoryview(rendering.render(memoryview(stored))))
    assert has_valid_checksum(rendered)
    assert (rendered.base_offset, rendered.writer_id, rendered.sequence, rendered.schema_id) == (1000, 7, 3, 2)
    body = bytes(rendered.body)
    assert body[:4] == bytes((1, 2, 3, 4))
    batch = pa.ipc.read_record_batch(pa.py_buffer(body[4:]), arrow_schema(NEW))
    assert [tuple(row.values()) for row in batch.to_pylist()] == [
        (1, "a", None),
        (1, "a", None),
        (1, "b", 0.5),
        (2, None, None),
    ]


def test_table_option_sets_the_compression_level() -> None:
    name = "table.log.arrow.compression.zstd.level"
    assert [KvSettings.parse(OLD, options).zstd_level for options in ({}, {name: "9"})] == [1, 9]
    rows = [value(1, number, f"{number * 7919 % 1000:04}" * 20) for number in range(2000)]
    stored = write_changes(ChangelogRecords(bytearray(b"\1" * len(rows)), [b"k"] * len(rows), rows), 1, -1, -1)
    sizes = [
        len(ChangelogRenderer(SCHEMAS.__getitem__, RowFormat.COMPACTED, zstd_level=level).render(memoryview(stored)))
        for level in (1, 19)
    ]
    assert sizes[1] < sizes[0]


def test_compacted_changelog_format_renders_rows() -> None:
    rendering = ChangelogRenderer(SCHEMAS.__getitem__, RowFormat.COMPACTED, ChangelogFormat.COMPACTED)
    body = bytes(read_header(memoryview(rendering.render(memoryview(write_changes(CHANGES, 2, -1, -1))))).body)
    layout = RowLayout(RowFormat.COMPACTED, [column.type for column in NEW.columns])
    found, position = [], 0
    while position < len(body):
        (length,) = struct.unpack_from("<i", body, position)
        record = body[position + 4 : position + 4 + length]
        found.append((record[0], layout.decode(record[1:])))
        position += 4 + length
    assert found == [(1, (1, "a", None)), (2, (1, "a", None)), (3, (1, "b", 0.5)), (4, (2, None, None))]


def test_empty_batch_is_rendered_empty() -> None:
    rendering = ChangelogRenderer(SCHEMAS.__getitem__, RowFormat.COMPACTED)
    rendered = read_header(memoryview(rendering.render(memoryview(write_changes(ChangelogRecords(), 1, 5, 9)))))
    assert (rendered.record_count, rendered.last_offset_delta, len(rendered.body)) == (0, 0, 0)
    assert (rendered.writer_id, rendered.sequence) == (5, 9)


def test_truncated_changes_are_corrupt() -> None:
    stored = write_changes(CHANGES, 2, -1, -1)
    for bad in (stored[:60], stored[:-1]):
        short = bytearray(bad)
        struct.pack_into("<i", short, 8, len(bad) - 12)
        with pytest.raises(FlussError) as failed:
            read_changes(read_header(memoryview(short)))
        assert failed.value.code is ErrorCode.CORRUPT_RECORD


@pytest.mark.slow
@pytest.mark.parametrize("format_", list(RowFormat))
@settings(max_examples=50)
@given(data=st.data())
def test_rendered_rows_equal_those_of_a_simple_decoder(format_: RowFormat, data: st.DataObject) -> None:
    schema = data.draw(schemas(plain_types()))
    types = [column.type for column in schema.columns]
    layout = RowLayout(format_, types)
    drawn = data.draw(st.lists(rows(schema), min_size=1, max_size=5))
    encoded = [layout.encode([fit_char(t, v) for t, v in zip(types, row, strict=True)]) for row in drawn]
    changes = ChangelogRecords(
        bytearray((1,)) * len(encoded), [b"k"] * len(encoded), [b"\1\0" + row for row in encoded]
    )
    rendering = ChangelogRenderer({1: schema}.__getitem__, format_)
    rendered = read_header(memoryview(rendering.render(memoryview(write_changes(changes, 1, -1, -1)))))
    batch = pa.ipc.read_record_batch(pa.py_buffer(bytes(rendered.body)[len(encoded) :]), arrow_schema(schema))
    plain = arrow_columns(format_, types, encoded)
    assert [column.to_pylist() for column in batch.columns] == [column.to_pylist() for column in plain]


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"table.merge-engine": "newest"}, ErrorCode.INVALID_CONFIG),
        ({"table.merge-engine": "last_row"}, ErrorCode.INVALID_CONFIG),
        ({"table.kv.format": "arrow"}, ErrorCode.INVALID_CONFIG),
        ({"table.changelog.image": "half"}, ErrorCode.INVALID_CONFIG),
        ({"table.auto-increment.cache-size": "0"}, ErrorCode.INVALID_CONFIG),
        ({"table.auto-increment.cache-size": "many"}, ErrorCode.INVALID_CONFIG),
        ({"table.log.arrow.compression.type": "snappy"}, ErrorCode.INVALID_CONFIG),
        ({"table.merge-engine": "first_row", "table.delete.behavior": "allow"}, ErrorCode.INVALID_TABLE),
        ({"table.merge-engine": "versioned"}, ErrorCode.INVALID_TABLE),
        ({"table.merge-engine": "versioned", "table.merge-engine.versioned.ver-column": "a"}, ErrorCode.INVALID_TABLE),
        ({"table.merge-engine": "aggregation", "table.changelog.image": "wal"}, ErrorCode.INVALID_TABLE),
        ({"table.log.format": "indexed"}, ErrorCode.INVALID_TABLE),
    ],
)
def test_invalid_settings_are_rejected(properties: dict[str, str], reason: ErrorCode) -> None:
    with pytest.raises(FlussError) as failed:
        KvSettings.parse(NEW, properties)
    assert failed.value.code is reason


def test_table_knows_its_latest_schema() -> None:
    table = KvTable(KvSettings.parse(OLD, {}), {1: OLD})
    with pytest.raises(FlussError) as failed:
        table.schema(2)
    assert failed.value.code is ErrorCode.SCHEMA_NOT_EXIST
    table.add_schema(2, NEW)
    assert (table.latest_id, table.latest, table.schema(1)) == (2, NEW, OLD)
    assert table.fields(value(1, 1, "a"))[2] is None
