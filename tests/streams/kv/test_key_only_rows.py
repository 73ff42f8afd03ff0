"""`lookup_or_insert` creates a row from a key, in every key encoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pytest

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.key_encoding import KeyEncoding, choose_encoding, decode_key
from lakebed.fluss.schema import Schema
from lakebed.fluss.types import DataType, TypeRoot
from lakebed.streams.kv.key_only_rows import KeyOnlyRows
from lakebed.streams.kv.table import KvSettings, KvTable
from tests.contracts.kv_bucket import KvBucketContract
from tests.fixtures.memory_index import MemoryIndex

INT = DataType(TypeRoot.INT, is_nullable=False)
LONG = DataType(TypeRoot.BIGINT)
TEXT = DataType(TypeRoot.STRING, is_nullable=False)


def timestamp(precision: int) -> DataType:
    return DataType(TypeRoot.TIMESTAMP, precision=precision)


def decimal(precision: int, scale: int) -> DataType:
    return DataType(TypeRoot.DECIMAL, precision=precision, scale=scale)


# Recorded from the encoders of the Java client 1.0.0: Iceberg, Paimon (after the eight bytes that begin all its keys)
# and compacted. None: the encoding does not support the type.
RECORDED: list[tuple[DataType, Any, str | None, str, str]] = [
    (INT, -5, "fbffffffffffffff", "fbffffff00000000", "fbffffff0f"),
    (LONG, 1 << 40, "0000000000010000", "0000000000010000", "808080808020"),
    (TEXT, "é key", "c3a9206b6579", "c3a9206b65790086", "06c3a9206b6579"),
    (
        TEXT,
        "a longer key",
        "61206c6f6e676572206b6579",
        "0c0000001000000061206c6f6e676572206b657900000000",
        "0c61206c6f6e676572206b6579",
    ),
    (DataType(TypeRoot.CHAR, length=4), "ab", "6162", "6162000000000082", "026162"),
    (DataType(TypeRoot.BYTES), b"\1\2\3", "010203", "0102030000000083", "03010203"),
    (
        DataType(TypeRoot.BINARY, length=9),
        bytes(range(1, 10)),
        "010203040506070809",
        "090000001000000001020304050607080900000000000000",
        "09010203040506070809",
    ),
    (decimal(10, 2), Decimal("-12.34"), "fb2e", "2efbffffffffffff", "aef6ffffffffffffff01"),
    (
        decimal(30, 2),
        Decimal("1234567890123456789012.34"),
        "1a249b1f10a06c96aff2",
        "0a000000100000001a249b1f10a06c96aff2000000000000",
        "0a1a249b1f10a06c96aff2",
    ),
    (DataType(TypeRoot.DATE), -1, "ffffffffffffffff", "ffffffff00000000", "ffffffff0f"),
    (DataType(TypeRoot.TIME, precision=3), 86_399_999, "185cd71d14000000", "ff5b260500000000", "ffb79929"),
    (timestamp(3), (-1, 0), "18fcffffffffffff", "ffffffffffffffff", "ffffffffffffffffff01"),
    (timestamp(6), (-2, 123_000), "abf8ffffffffffff", "78e0010010000000feffffffffffffff", "feffffffffffffffff01f8c007"),
    (
        DataType(TypeRoot.TIMESTAMP_LTZ, precision=6),
        (1_700_000_000_000, 7000),
        None,
        "581b0000100000000068e5cf8b010000",
        "80d095ffbc31d836",
    ),
    (DataType(TypeRoot.FLOAT), 1.5, "0000c03f", "0000c03f00000000", "0000c03f"),
    (DataType(TypeRoot.DOUBLE), -2.25, "00000000000002c0", "00000000000002c0", "00000000000002c0"),
    (DataType(TypeRoot.BOOLEAN), True, None, "0100000000000000", "01"),
    (DataType(TypeRoot.TINYINT), -3, None, "fd00000000000000", "fd"),
    (DataType(TypeRoot.SMALLINT), -300, None, "d4fe000000000000", "d4fe"),
]
PAIMON_HEAD = "0000000000000000"
THREE_TYPES = [TEXT, INT, TEXT]
THREE = ["short", 7, "not so short"]
THREE_PAIMON = bytes.fromhex(
    f"{PAIMON_HEAD}73686f727400008507000000000000000c000000200000006e6f7420736f2073686f727400000000"
)
THREE_COMPACTED = bytes.fromhex("0573686f7274070c6e6f7420736f2073686f7274")
TIMES_PAIMON = bytes.fromhex(
    f"{PAIMON_HEAD}701700002000000028230000280000000c00000030000000"
    "050000000000000008000000000000006e6f7420736f2073686f727400000000"
)


@pytest.mark.parametrize(
    ("type_", "value", "iceberg", "paimon", "compacted"), RECORDED, ids=[str(r[0]) for r in RECORDED]
)
def test_keys_written_by_java_are_decoded(
    type_: DataType, value: Any, iceberg: str | None, paimon: str, compacted: str
) -> None:
    assert decode_key(KeyEncoding.COMPACTED, [type_], bytes.fromhex(compacted)) == [value]
    assert decode_key(KeyEncoding.PAIMON, [type_], bytes.fromhex(PAIMON_HEAD + paimon)) == [value]
    if iceberg is not None:
        assert decode_key(KeyEncoding.ICEBERG, [type_], bytes.fromhex(iceberg)) == [value]
    else:
        with pytest.raises(FlussError) as failed:
            decode_key(KeyEncoding.ICEBERG, [type_], b"")
        assert failed.value.code is ErrorCode.INVALID_TARGET_COLUMN


def test_multi_column_keys_written_by_java_are_decoded() -> None:
    assert decode_key(KeyEncoding.PAIMON, THREE_TYPES, THREE_PAIMON) == THREE
    assert decode_key(KeyEncoding.COMPACTED, THREE_TYPES, THREE_COMPACTED) == THREE
    times = [timestamp(6), DataType(TypeRoot.TIMESTAMP_LTZ, precision=6), TEXT]
    assert decode_key(KeyEncoding.PAIMON, times, TIMES_PAIMON) == [(5, 6000), (8, 9000), "not so short"]


@pytest.mark.parametrize(
    ("encoding", "types", "key"),
    [
        (KeyEncoding.COMPACTED, [INT], b""),
        (KeyEncoding.COMPACTED, THREE_TYPES, THREE_COMPACTED[:-1]),
        (KeyEncoding.COMPACTED, THREE_TYPES, THREE_COMPACTED + b"\0"),
        (KeyEncoding.COMPACTED, [TEXT], b"\1\xff"),
        (KeyEncoding.ICEBERG, [INT], bytes(4)),
        (KeyEncoding.ICEBERG, [INT], (1 << 40).to_bytes(8, "little")),
        (KeyEncoding.ICEBERG, [TEXT], b"\xff"),
        (KeyEncoding.ICEBERG, [decimal(10, 2)], b""),
        (KeyEncoding.ICEBERG, [decimal(10, 2)], bytes(17)),
        (KeyEncoding.ICEBERG, [timestamp(3)], (1).to_bytes(8, "little")),
        (KeyEncoding.ICEBERG, [DataType(TypeRoot.TIME)], (1).to_bytes(8, "little")),
        (KeyEncoding.PAIMON, THREE_TYPES, b""),
        (KeyEncoding.PAIMON, THREE_TYPES, THREE_PAIMON[:-8]),
        (KeyEncoding.PAIMON, THREE_TYPES, THREE_PAIMON + bytes(8)),
        (KeyEncoding.PAIMON, THREE_TYPES, b"\0\2" + THREE_PAIMON[2:]),
        (KeyEncoding.PAIMON, THREE_TYPES, THREE_COMPACTED),
        (KeyEncoding.PAIMON, [TEXT], bytes(8) + b"\xff" + bytes(6) + b"\x81"),
        (KeyEncoding.PAIMON, [timestamp(6)], bytes(12) + b"\xff\0\0\0" + bytes(8)),
    ],
)
def test_invalid_keys_are_corrupt(encoding: KeyEncoding, types: Sequence[DataType], key: bytes) -> None:
    with pytest.raises(FlussError) as failed:
        decode_key(encoding, types, key)
    assert failed.value.code is ErrorCode.CORRUPT_RECORD


@pytest.mark.parametrize(
    ("lake", "version", "bucket_key", "expected"),
    [
        ("", 2, "ab", KeyEncoding.COMPACTED),
        ("lance", 2, "ab", KeyEncoding.COMPACTED),
        ("hudi", 2, "ab", KeyEncoding.COMPACTED),
        ("hudi", 1, "ab", KeyEncoding.COMPACTED),
        ("paimon", 2, "ab", KeyEncoding.PAIMON),
        ("paimon", 2, "a", KeyEncoding.COMPACTED),
        ("paimon", 2, "ba", KeyEncoding.COMPACTED),
        ("paimon", 1, "ab", KeyEncoding.PAIMON),
        ("paimon", 1, "a", KeyEncoding.PAIMON),
        ("iceberg", 2, "a", KeyEncoding.COMPACTED),
    ],
)
def test_encoding_is_that_of_the_lake_unless_the_bucket_key_has_fewer_columns(
    lake: str, version: int, bucket_key: str, expected: KeyEncoding
) -> None:
    assert choose_encoding(lake, version, ["a", "b"], list(bucket_key)) is expected


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("lake", ["iceberg", "paimon"])
def test_single_column_key_has_the_encoding_of_the_lake(lake: str, version: int) -> None:
    assert choose_encoding(lake, version, ["a"], ["a"]) is KeyEncoding(lake)


def rows_of(
    columns: Sequence[tuple[str, DataType]],
    primary_key: Sequence[str],
    properties: Mapping[str, str],
    constants: Mapping[str, str] | None = None,
    bucket_key: Sequence[str] | None = None,
) -> tuple[KvTable, KeyOnlyRows]:
    schema = Schema.of(columns, primary_key=primary_key)
    table = KvTable(KvSettings.parse(schema, {f"table.{name}": each for name, each in properties.items()}), {1: schema})
    return table, KeyOnlyRows(table, constants, bucket_key)


COLUMNS = [("a", TEXT), ("n", LONG), ("b", INT), ("c", TEXT)]
V2 = {"kv.format-version": "2"}


@pytest.mark.parametrize("format_", ["COMPACTED", "INDEXED"])
@pytest.mark.parametrize(
    ("properties", "bucket_key", "key"),
    [
        (V2, None, THREE_COMPACTED),
        ({**V2, "datalake.format": "paimon"}, None, THREE_PAIMON),
        ({**V2, "datalake.format": "PAIMON"}, ["a", "b", "c"], THREE_PAIMON),
        ({**V2, "datalake.format": "paimon"}, ["a"], THREE_COMPACTED),
        ({**V2, "datalake.format": "iceberg"}, ["a"], THREE_COMPACTED),
        ({**V2, "datalake.format": "iceberg"}, None, THREE_COMPACTED),
        ({**V2, "datalake.format": "hudi"}, None, THREE_COMPACTED),
        ({"datalake.format": "paimon"}, ["a"], THREE_PAIMON),
    ],
)
def test_key_is_decoded_into_its_columns(
    properties: Mapping[str, str], bucket_key: Sequence[str] | None, key: bytes, format_: str
) -> None:
    table, key_rows = rows_of(COLUMNS, ["a", "b", "c"], {**properties, "kv.format": format_}, None, bucket_key)
    assert table.layout(1).decode(key_rows.row(key)) == ("short", None, 7, "not so short")


def test_partition_columns_come_from_the_partition() -> None:
    columns = [("day", TEXT), ("k", INT), ("name", DataType(TypeRoot.STRING))]
    for lake, key in (("iceberg", "0700000000000000"), ("paimon", f"{PAIMON_HEAD}0700000000000000"), ("lance", "07")):
        properties = {**V2, "datalake.format": lake}
        table, key_rows = rows_of(columns, ["day", "k"], properties, {"day": "2026-01-01"}, ["k"])
        assert table.layout(1).decode(key_rows.row(bytes.fromhex(key))) == ("2026-01-01", 7, None)


@pytest.mark.parametrize(
    ("lake", "key"), [("iceberg", "0700000000000000"), ("paimon", f"{PAIMON_HEAD}0700000000000000"), ("", "07")]
)
async def test_lookup_or_insert_creates_absent_keys_for_every_lake_format(lake: str, key: str) -> None:
    schema = Schema.of([("k", INT), ("id", LONG)], primary_key=["k"], auto_increment="id")
    properties = {"table.kv.format-version": "2"} | ({"table.datalake.format": lake} if lake else {})
    bucket = await KvBucketContract().open(MemoryIndex, schema, properties)
    (found,) = await bucket.kv.lookup_or_insert([bytes.fromhex(key)])
    assert bucket.decoded(found or b"") == (7, 1)
    assert await bucket.kv.lookup([bytes.fromhex(key)]) == [found]
    assert await bucket.changelog() == [("+I", 7, 1)]
    await bucket.kv.close()
