"""Rows that readers could not decode are rejected; readers accept every row that passes."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.kv_batches import write_kv_batch
from lakebed.fluss.rows.decoding import RowBuffer, check_rows, decode_columns
from lakebed.fluss.rows.fields import RowFormat
from lakebed.fluss.rows.layout import RowLayout
from lakebed.fluss.schema import Schema
from lakebed.fluss.types import DataType, RowField, TypeRoot
from lakebed.streams.seam import Acks, KvPut, MergeMode
from tests.contracts.kv_bucket import Bucket, KvBucketContract, key_of
from tests.fixtures.memory_index import MemoryIndex

from ..strategies import plain_types, rows, schemas
from .test_layout import fit_char

FORMATS = list(RowFormat)
INT = DataType(TypeRoot.INT)
KEY = INT.of(is_nullable=False)
TEXT = DataType(TypeRoot.STRING)


def columns_of(format_: RowFormat, types: list[DataType], encoded: list[bytes]) -> list[Any]:
    """Decode rows that passed validation, as readers do."""
    found = decode_columns(format_, types, RowBuffer.of(encoded))
    for type_, column in zip(types, found, strict=True):
        column.validate(full=True)
        assert type_.is_nullable or column.null_count == 0
        if type_.root in (TypeRoot.STRING, TypeRoot.CHAR):
            column.to_pylist()
    return found


def passes(format_: RowFormat, types: list[DataType], encoded: list[bytes]) -> bool:
    """Whether validation accepts the rows."""
    try:
        check_rows(format_, types, RowBuffer.of(encoded))
    except FlussError as failure:
        assert failure.code in (ErrorCode.CORRUPT_RECORD, ErrorCode.INVALID_TARGET_COLUMN)  # noqa: PT017
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("format_", FORMATS)
@given(data=st.data())
def test_valid_rows_pass(format_: RowFormat, data: st.DataObject) -> None:
    schema = data.draw(schemas())
    types = [column.type for column in schema.columns]
    layout = RowLayout(format_, types)
    values = data.draw(st.lists(rows(schema), max_size=4))
    encoded = [
        layout.encode([fit_char(type_, value) for type_, value in zip(types, row, strict=True)]) for row in values
    ]
    check_rows(format_, types, RowBuffer.of(encoded))
    columns_of(format_, types, encoded)


@pytest.mark.slow
@pytest.mark.parametrize("format_", FORMATS)
@given(data=st.data())
def test_changed_row_is_rejected_or_readable(format_: RowFormat, data: st.DataObject) -> None:
    schema = data.draw(schemas() | schemas(plain_types()))
    types = [column.type for column in schema.columns]
    layout = RowLayout(format_, types)
    values = data.draw(st.lists(rows(schema), min_size=1, max_size=3))
    encoded = [
        layout.encode([fit_char(type_, value) for type_, value in zip(types, row, strict=True)]) for row in values
    ]
    at = data.draw(st.integers(0, len(encoded) - 1))
    changed = bytearray(encoded[at])
    for _ in range(data.draw(st.integers(1, 3))):
        where = data.draw(st.integers(0, len(changed) - 1))
        changed[where] = data.draw(st.sampled_from((0x00, 0x01, 0x7F, 0x80, 0xFF, 0xC3)) | st.integers(0, 255))
    if data.draw(st.booleans()):
        changed += data.draw(st.binary(max_size=3))
    encoded[at] = bytes(changed)
    if passes(format_, types, encoded):
        columns_of(format_, types, encoded)
        for row in encoded:
            layout.split(row)


@pytest.mark.slow
@pytest.mark.parametrize("format_", FORMATS)
@given(data=st.data())
def test_noise_is_rejected_or_readable(format_: RowFormat, data: st.DataObject) -> None:
    schema = data.draw(schemas())
    types = [column.type for column in schema.columns]
    noise = data.draw(st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=4))
    if passes(format_, types, noise):
        columns_of(format_, types, noise)


def row_of(*fields: bytes | None) -> bytes:
    """A compacted row of raw fields, each after its length."""
    bitmap = sum(1 << at for at, field in enumerate(fields) if field is None)
    return bytes([bitmap]) + b"".join(bytes([len(field)]) + field for field in fields if field is not None)


ARRAY = DataType(TypeRoot.ARRAY, element=INT)
DECIMAL = DataType(TypeRoot.DECIMAL, precision=20, scale=2)
REFUSED: list[tuple[str, DataType, bytes]] = [
    ("too long", DataType(TypeRoot.BINARY, length=4), row_of(b"12345")),
    ("no UTF-8", TEXT, row_of(b"\xff")),
    ("cut UTF-8", TEXT, row_of("é".encode()[:1])),
    ("surrogates", TEXT, row_of(b"\xed\xa0\x80")),
    ("no UTF-8", DataType(TypeRoot.CHAR, length=3), row_of(b"\xc3(")),
    ("null", TEXT.of(is_nullable=False), row_of(None)),
    ("null", INT.of(is_nullable=False), b"\1"),
    ("too many bytes", DECIMAL, row_of(bytes(17))),
    ("no bytes", DECIMAL, row_of(b"")),
    ("too many digits", DECIMAL, row_of((10**20).to_bytes(9, "big"))),
    ("too many digits", DataType(TypeRoot.DECIMAL, precision=3, scale=0), b"\0\xe8\x07"),
    ("another day", DataType(TypeRoot.TIME, precision=3), b"\0\x80\xb8\x99\x29"),
    ("before the day", DataType(TypeRoot.TIME, precision=3), b"\0\xff\xff\xff\xff\x0f"),
    ("too many nanoseconds", DataType(TypeRoot.TIMESTAMP, precision=9), b"\0\0\xc0\x84\x3d"),
    ("no array", ARRAY, row_of(b"\xff" * 7)),
    ("cut array", ARRAY, row_of(struct.pack("<iI", 3, 0))),
    ("null in it", DataType(TypeRoot.ARRAY, element=INT.of(is_nullable=False)), row_of(struct.pack("<iIi", 1, 1, 0))),
    ("text outside", DataType(TypeRoot.ARRAY, element=TEXT), row_of(struct.pack("<iIQ", 1, 0, 99 << 32 | 8))),
    ("no UTF-8 in it", DataType(TypeRoot.ARRAY, element=TEXT), row_of(struct.pack("<iI7sB", 1, 0, b"\xff", 0x81))),
    (
        "text larger than its slot",
        DataType(TypeRoot.ARRAY, element=TEXT),
        row_of(struct.pack("<iI7sB", 1, 0, b"a", 0x88)),
    ),
    (
        "digits in it",
        DataType(TypeRoot.ARRAY, element=DataType(TypeRoot.DECIMAL, precision=3, scale=0)),
        row_of(struct.pack("<iIq", 1, 0, 1000)),
    ),
    (
        "bytes in it",
        DataType(TypeRoot.ARRAY, element=DataType(TypeRoot.BINARY, length=2)),
        row_of(struct.pack("<iI7sB", 1, 0, b"abc", 0x83)),
    ),
    (
        "a time in it",
        DataType(TypeRoot.ARRAY, element=DataType(TypeRoot.TIME)),
        row_of(struct.pack("<iIi", 1, 0, 86_400_000)),
    ),
    (
        "nanoseconds in it",
        DataType(TypeRoot.ARRAY, element=DataType(TypeRoot.TIMESTAMP, precision=9)),
        row_of(struct.pack("<iIQq", 1, 0, 16 << 32 | 1_000_000, 5)),
    ),
    (
        "null for a key",
        DataType(TypeRoot.MAP, key=INT, value=INT),
        row_of(struct.pack("<iiIiiIi", 12, 1, 1, 0, 1, 0, 0)),
    ),
    ("keys longer than it", DataType(TypeRoot.MAP, key=INT, value=INT), row_of(struct.pack("<i", 99))),
    ("cut row", DataType(TypeRoot.ROW, fields=(RowField("a", INT, 5), RowField("b", TEXT, 6))), row_of(b"\0")),
    ("null in a row", DataType(TypeRoot.ROW, fields=(RowField("a", INT.of(is_nullable=False), 5),)), row_of(b"\1")),
]


@pytest.mark.parametrize(
    ("defect", "type_", "row"), REFUSED, ids=[f"{defect}: {type_}" for defect, type_, _ in REFUSED]
)
def test_unreadable_row_is_rejected(defect: str, type_: DataType, row: bytes) -> None:
    types = [type_, INT.of(is_nullable=True)]
    good = b"\3" if type_.is_nullable else None
    tail = b"" if row[0] & 2 else b"\5"
    with pytest.raises(FlussError) as failed:
        check_rows(RowFormat.COMPACTED, types, RowBuffer.of([each for each in (good, row + tail, good) if each]))
    assert failed.value.code is ErrorCode.INVALID_TARGET_COLUMN
    assert f"column=0 type={type_}" in str(failed.value)


def test_timestamp_beyond_the_range_of_arrow_is_kept() -> None:
    """Like the Fluss server. Many applications write the year 9999 for "never"."""
    moment = DataType(TypeRoot.TIMESTAMP, precision=9)
    types = [moment, DataType(TypeRoot.ARRAY, element=moment)]
    never = (253_402_300_799_999, 999_999)
    encoded = RowLayout(RowFormat.COMPACTED, types).encode([never, [never]])
    check_rows(RowFormat.COMPACTED, types, RowBuffer.of([encoded]))
    top_level, nested = decode_columns(RowFormat.COMPACTED, types, RowBuffer.of([encoded]))
    assert nested.flatten().cast("int64") == top_level.cast("int64")
    assert RowLayout(RowFormat.COMPACTED, types).decode(encoded) == (never, [never])


def test_array_with_overlapping_elements_is_rejected() -> None:
    """Nested overlapping arrays would expand exponentially."""
    type_ = INT
    for _ in range(4):
        type_ = DataType(TypeRoot.ARRAY, element=type_)
    count = 100
    head = struct.pack("<i", count) + bytes(16)
    body = head + b"".join(struct.pack("<Q", 0 << 32 | (len(head) + 8 * count)) for _ in range(count))
    row = b"\0" + bytes([0x80 | len(body) & 0x7F, len(body) >> 7]) + body
    with pytest.raises(FlussError):
        check_rows(RowFormat.COMPACTED, [type_], RowBuffer.of([row]))
    with pytest.raises(FlussError):
        decode_columns(RowFormat.COMPACTED, [type_], RowBuffer.of([row]))


def test_decimals_of_full_precision_pass() -> None:
    types = [DataType(TypeRoot.DECIMAL, precision=38, scale=2), DataType(TypeRoot.DECIMAL, precision=18, scale=0)]
    most, least = Decimal("9" * 36 + ".99"), Decimal("-" + "9" * 36 + ".99")
    for format_ in FORMATS:
        layout = RowLayout(format_, types)
        encoded = [layout.encode(row) for row in ((most, Decimal("9" * 18)), (least, Decimal("-" + "9" * 18)))]
        encoded.append(layout.encode((None, None)))
        check_rows(format_, types, RowBuffer.of(encoded))
        assert columns_of(format_, types, encoded)[0].to_pylist() == [most, least, None]


async def open_bucket(schema: Schema, **properties: str) -> Bucket:
    named = {name.replace("_", "-"): value for name, value in properties.items()}
    return await KvBucketContract().open(MemoryIndex, schema, {f"table.{name}": each for name, each in named.items()})


async def assert_rejected(
    bucket: Bucket, row: bytes, columns: tuple[int, ...] = (), mode: MergeMode = MergeMode.MERGE
) -> None:
    """Put an invalid row between two valid ones, and check that the whole batch is rejected."""
    before = bucket.log.end_offset
    good = [(key_of(number), bucket.table.layout(1).encode((number, None, None))) for number in (50, 51)]
    with pytest.raises(FlussError) as failed:
        await bucket.kv.put(KvPut(write_kv_batch([good[0], (key_of(7), row), good[1]], 1), columns, mode), Acks.ALL)
    assert failed.value.code is ErrorCode.INVALID_TARGET_COLUMN
    assert bucket.log.end_offset == before
    assert await bucket.kv.lookup([key_of(7), key_of(50), key_of(51)]) == [None, None, None]


@pytest.mark.parametrize(
    ("type_", "row"),
    [pytest.param(type_, row, id=f"{defect}: {type_}") for defect, type_, row in REFUSED if type_.is_nullable],
)
async def test_batch_with_an_unreadable_row_is_rejected_as_a_whole(type_: DataType, row: bytes) -> None:
    bucket = await open_bucket(Schema.of([("k", KEY), ("bad", type_), ("n", INT)], primary_key=["k"]))
    await assert_rejected(bucket, bytes([0b100]) + b"\7" + row[1:])
    await bucket.put((1, None, 5))
    assert await bucket.changelog() == [("+I", 1, None, 5)]
    await bucket.kv.close()


@pytest.mark.parametrize("mode", list(MergeMode))
async def test_null_key_is_rejected_in_partial_updates_too(mode: MergeMode) -> None:
    bucket = await open_bucket(Schema.of([("k", KEY), ("name", TEXT), ("n", INT)], primary_key=["k"]))
    nothing = bytes([0b111])
    for columns in ((), (0,), (0, 2), (0, 1, 2)):
        await assert_rejected(bucket, nothing, columns, mode)
    await bucket.kv.close()


async def test_columns_outside_a_partial_update_may_be_null() -> None:
    bucket = await open_bucket(Schema.of([("k", KEY), ("name", TEXT), ("n", INT)], primary_key=["k"]))
    await bucket.put((1, None, 5), columns=[0, 2])
    await bucket.put((1, "a", None), columns=[0, 1])
    assert await bucket.row(1) == (1, "a", 5)
    await bucket.kv.close()


async def test_auto_increment_column_may_be_null() -> None:
    schema = Schema.of(
        [("k", KEY), ("id", DataType(TypeRoot.BIGINT)), ("n", INT)], primary_key=["k"], auto_increment="id"
    )
    bucket = await open_bucket(schema)
    await bucket.put((10, None, 5), columns=[0, 2])
    assert await bucket.row(10) == (10, 1, 5)
    await bucket.kv.close()


async def test_added_column_is_null_in_older_rows() -> None:
    schema = Schema.of([("k", KEY), ("name", TEXT.of(is_nullable=False))], primary_key=["k"])
    bucket = await KvBucketContract().open(MemoryIndex, schema)
    bucket.schemas[2] = schema.with_column("added", TEXT)
    bucket.table.add_schema(2, bucket.schemas[2])
    await bucket.put((1, "old writer"))
    await bucket.put((2, "new writer", None), schema_id=2)
    assert await bucket.changelog() == [("+I", 1, "old writer", None), ("+I", 2, "new writer", None)]
    with pytest.raises(FlussError):
        await bucket.put((3, None))
    with pytest.raises(FlussError):
        await bucket.put((3, None, "x"), schema_id=2)
    await bucket.kv.close()
