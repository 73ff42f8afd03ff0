"""Keys and buckets, compared with those of the Java client 1.0.0."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pytest

from lakebed.client.streams.bucketing import BucketAssigner, KeyEncoder
from lakebed.client.streams.tables import TableInfo
from lakebed.fluss.arrow_types import arrow_schema
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.schema import Schema
from lakebed.fluss.types import DataType, TypeRoot

BUCKETS: Final = 1009
LONG: Final = "a text that is longer than a slot"
BEHIND: Final = "6120746578742074686174206973206c6f6e676572207468616e206120736c6f7400000000000000"
"""LONG in Paimon's encoding."""

MOMENT: Final = datetime.datetime(2017, 11, 16, 22, 31, 8, 123456)
TIMESTAMP, DECIMAL, WIDE = (
    DataType(TypeRoot.TIMESTAMP),
    DataType(TypeRoot.DECIMAL, scale=2),
    DataType(TypeRoot.DECIMAL, True, None, 30, 4),
)
SEVEN, EIGHT = "iceberg", "icebergs"


def table(types: list[DataType], lake: str = "", *, partition: str = "", **others: Any) -> TableInfo:
    """A table whose primary key is all columns but the last, an INT."""
    named = [(f"c{at}", type_) for at, type_ in enumerate(types)]
    schema = Schema.of([*named, ("n", DataType(TypeRoot.INT))], primary_key=[name for name, _ in named])
    properties = {"table.datalake.format": lake, "table.kv.format-version": "2"} if lake else {}
    keys = (partition,) if partition else ()
    return TableInfo("fluss", "t", 1, 1, schema, BUCKETS, partition_keys=keys, properties=properties, **others)


def rows(info: TableInfo, *values: Any) -> pa.RecordBatch:
    schema = arrow_schema(info.schema)
    return pa.RecordBatch.from_pylist([dict(zip(schema.names, (*values, 0), strict=True))], schema)


ICEBERG: Final = [
    (DataType(TypeRoot.INT), 0, "0000000000000000", 674),
    (DataType(TypeRoot.INT), -1, "ffffffffffffffff", 578),
    (DataType(TypeRoot.INT), 2**31 - 1, "ffffff7f00000000", 597),
    (DataType(TypeRoot.INT), -(2**31), "00000080ffffffff", 800),
    (DataType(TypeRoot.BIGINT), 34, "2200000000000000", 165),
    (DataType(TypeRoot.BIGINT), 2**40, "0000000000010000", 298),
    (DataType(TypeRoot.BIGINT), -(2**63), "0000000000000080", 46),
    (DataType(TypeRoot.FLOAT), 0.5, "0000003f", 945),
    (DataType(TypeRoot.DOUBLE), -0.25, "000000000000d0bf", 848),
    (DataType(TypeRoot.STRING), "grüße", "6772c3bcc39f65", 611),
    (DataType(TypeRoot.STRING), SEVEN, "69636562657267", 226),
    (DataType(TypeRoot.STRING), EIGHT, "6963656265726773", 701),
    (DataType(TypeRoot.STRING), LONG, BEHIND[:66], 643),
    (DataType(TypeRoot.CHAR, length=5), "abc", "616263", 781),
    (DataType(TypeRoot.BYTES), b"\0\1\2\xff", "000102ff", 100),
    (DataType(TypeRoot.BINARY, length=3), b"\7\x08\x09", "070809", 617),
    (DECIMAL, Decimal("14.20"), "058c", 699),
    (DECIMAL, Decimal("-1.28"), "80", 224),
    (DECIMAL, Decimal("1.28"), "0080", 213),
    (DECIMAL, Decimal("0.00"), "00", 546),
    (WIDE, Decimal("-123456789012345678.1234"), "bd12edc4f427dfe44e", 627),
    (DataType(TypeRoot.DATE), datetime.date(1969, 12, 31), "ffffffffffffffff", 578),
    (DataType(TypeRoot.DATE), datetime.date(2017, 11, 16), "4e44000000000000", 801),
    (DataType(TypeRoot.TIME, precision=3), datetime.time(22, 31, 8, 123000), "786309e012000000", 204),
    (TIMESTAMP, MOMENT, "40a5282d215e0500", 750),
    (
        DataType(TypeRoot.TIMESTAMP, precision=3),
        datetime.datetime(1969, 12, 31, 23, 59, 59, 999000),
        "18fcffffffffffff",
        300,
    ),
]

PAIMON: Final = [
    ([DataType(TypeRoot.BOOLEAN)], [True], "00000000000000000100000000000000", 420),
    ([DataType(TypeRoot.TINYINT)], [-7], "0000000000000000f900000000000000", 703),
    ([DataType(TypeRoot.SMALLINT)], [-300], "0000000000000000d4fe000000000000", 477),
    ([DataType(TypeRoot.INT)], [-1], "0000000000000000ffffffff00000000", 92),
    ([DataType(TypeRoot.INT)], [-(2**31)], "00000000000000000000008000000000", 751),
    ([DataType(TypeRoot.BIGINT)], [-1], "0000000000000000ffffffffffffffff", 466),
    ([DataType(TypeRoot.FLOAT)], [0.5], "00000000000000000000003f00000000", 148),
    ([DataType(TypeRoot.DOUBLE)], [-0.25], "0000000000000000000000000000d0bf", 361),
    ([DataType(TypeRoot.STRING)], [""], "00000000000000000000000000000080", 276),
    ([DataType(TypeRoot.STRING)], [SEVEN], "00000000000000006963656265726787", 749),
    ([DataType(TypeRoot.STRING)], [EIGHT], "000000000000000008000000100000006963656265726773", 969),
    ([DataType(TypeRoot.STRING)], [LONG], f"00000000000000002100000010000000{BEHIND}", 69),
    ([DataType(TypeRoot.CHAR, length=5)], ["abc"], "00000000000000006162630000000083", 302),
    (
        [DataType(TypeRoot.BYTES)],
        [b"twelve bytes"],
        "00000000000000000c000000100000007477656c766520627974657300000000",
        312,
    ),
    ([DataType(TypeRoot.BINARY, length=3)], [b"\7\x08\x09"], "00000000000000000708090000000083", 278),
    ([DECIMAL], [Decimal("-1.28")], "000000000000000080ffffffffffffff", 956),
    (
        [WIDE],
        [Decimal("-123456789012345678.1234")],
        "00000000000000000900000010000000bd12edc4f427dfe44e00000000000000",
        576,
    ),
    ([DataType(TypeRoot.DATE)], [datetime.date(2017, 11, 16)], "00000000000000004e44000000000000", 1004),
    (
        [DataType(TypeRoot.TIME, precision=3)],
        [datetime.time(22, 31, 8, 123000)],
        "00000000000000005b00d50400000000",
        427,
    ),
    ([TIMESTAMP], [MOMENT], "000000000000000040f50600100000005b08f5c65f010000", 465),
    (
        [DataType(TypeRoot.TIMESTAMP_LTZ, precision=3)],
        [MOMENT.replace(microsecond=123000, tzinfo=datetime.UTC)],
        "00000000000000005b08f5c65f010000",
        96,
    ),
    (
        [DataType(TypeRoot.INT), DataType(TypeRoot.STRING)],
        [7, LONG],
        f"000000000000000007000000000000002100000018000000{BEHIND}",
        510,
    ),
    (
        [TIMESTAMP, DataType(TypeRoot.STRING), DataType(TypeRoot.STRING)],
        [MOMENT, LONG, "grüße"],
        f"000000000000000040f506002000000021000000280000006772c3bcc39f65875b08f5c65f010000{BEHIND}",
        214,
    ),
    ([DataType(TypeRoot.TINYINT)] * 60, [1] * 60, "00" * 16 + "0100000000000000" * 60, 710),
]

FLUSS: Final = [
    ([DataType(TypeRoot.BOOLEAN)], [True], "01", 107),
    ([DataType(TypeRoot.INT)], [-1], "ffffffff0f", 787),
    ([DataType(TypeRoot.INT)], [34], "22", 208),
    ([DataType(TypeRoot.STRING)], ["grüße"], "076772c3bcc39f65", 682),
    ([DataType(TypeRoot.INT), DataType(TypeRoot.STRING)], [7, LONG], f"0721{BEHIND[:66]}", 859),
]


@pytest.mark.parametrize(("type_", "value", "key", "bucket"), ICEBERG)
def test_iceberg_keys_and_buckets_match_the_java_client(type_: DataType, value: Any, key: str, bucket: int) -> None:
    info = table([type_], "iceberg")
    assigner, batch = BucketAssigner(info), rows(info, value)
    assert [each.hex() for each in assigner.keys(batch)] == [key]
    assert assigner.buckets(batch) == [bucket]


@pytest.mark.parametrize(("types", "values", "key", "bucket"), PAIMON)
def test_paimon_keys_and_buckets_match_the_java_client(
    types: list[DataType], values: list[Any], key: str, bucket: int
) -> None:
    info = table(types, "PAIMON")
    assigner, batch = BucketAssigner(info), rows(info, *values)
    assert [each.hex() for each in assigner.keys(batch)] == [key]
    assert assigner.buckets(batch) == [bucket]


@pytest.mark.parametrize("lake", ["", "lance"])
@pytest.mark.parametrize(("types", "values", "key", "bucket"), FLUSS)
def test_fluss_keys_and_buckets_match_the_java_client(
    lake: str, types: list[DataType], values: list[Any], key: str, bucket: int
) -> None:
    info = table(types, lake)
    assigner, batch = BucketAssigner(info), rows(info, *values)
    assert [each.hex() for each in assigner.keys(batch)] == [key]
    assert assigner.buckets(batch) == [bucket]


@pytest.mark.parametrize(
    "types",
    [
        [DataType(TypeRoot.BOOLEAN)],
        [DataType(TypeRoot.TINYINT)],
        [DataType(TypeRoot.SMALLINT)],
        [DataType(TypeRoot.TIMESTAMP_LTZ)],
        [DataType(TypeRoot.INT), DataType(TypeRoot.STRING)],
    ],
)
def test_key_types_without_iceberg_encoding_are_rejected(types: list[DataType]) -> None:
    with pytest.raises(FlussError) as failed:
        BucketAssigner(table(types, "iceberg"))
    assert failed.value.code is ErrorCode.INVALID_TABLE


def test_empty_key_has_no_bucket_in_iceberg() -> None:
    info = table([DataType(TypeRoot.STRING)], "iceberg")
    with pytest.raises(FlussError) as failed:
        BucketAssigner(info).buckets(rows(info, ""))
    assert failed.value.code is ErrorCode.INVALID_TARGET_COLUMN


def test_hudi_is_rejected() -> None:
    with pytest.raises(FlussError) as failed:
        BucketAssigner(table([DataType(TypeRoot.INT)], "hudi"))
    assert failed.value.code is ErrorCode.INVALID_TABLE


def test_key_with_a_bucket_key_prefix_is_encoded() -> None:
    info = table([DataType(TypeRoot.INT), DataType(TypeRoot.STRING)], "iceberg", bucket_key=("c0",))
    assigner, batch = BucketAssigner(info), rows(info, 34, "x")
    assert [each.hex() for each in assigner.keys(batch)] == ["220178"]
    assert assigner.buckets(batch) == [165]


def test_partition_columns_are_not_in_the_key() -> None:
    info = table([DataType(TypeRoot.INT), DataType(TypeRoot.STRING)], "iceberg", partition="c1")
    assigner, batch = BucketAssigner(info), rows(info, 34, "EU")
    assert [each.hex() for each in assigner.keys(batch)] == ["2200000000000000"]
    assert assigner.buckets(batch) == [165]


def test_null_in_a_key_is_rejected() -> None:
    schema = Schema.of([("a", DataType(TypeRoot.INT))])
    info = TableInfo("fluss", "t", 1, 1, schema, BUCKETS, ("a",))
    with pytest.raises(FlussError) as failed:
        BucketAssigner(info).buckets(pa.RecordBatch.from_pylist([{"a": 1}, {"a": None}], arrow_schema(schema)))
    assert failed.value.code is ErrorCode.INVALID_TARGET_COLUMN


def test_log_table_has_buckets_and_no_keys() -> None:
    schema = Schema.of([("a", DataType(TypeRoot.INT)), ("b", DataType(TypeRoot.INT))])
    info = TableInfo("fluss", "t", 1, 1, schema, 2, ("a",))
    batch = pa.RecordBatch.from_pylist([{"a": n, "b": n} for n in range(20)], arrow_schema(schema))
    assigner = BucketAssigner(info)
    found = assigner.by_bucket(batch)
    assert sorted(number for numbers in found.values() for number in numbers) == list(range(20))
    assert set(found) == {0, 1}
    with pytest.raises(FlussError) as failed:
        assigner.keys(batch)
    assert failed.value.code is ErrorCode.NON_PRIMARY_KEY_TABLE


def test_unknown_key_column_is_rejected() -> None:
    with pytest.raises(FlussError) as failed:
        KeyEncoder(table([DataType(TypeRoot.INT)]), ["nope"])
    assert failed.value.code is ErrorCode.INVALID_TABLE
