from __future__ import annotations

from lakebed.client.streams.tables import TableInfo
from lakebed.fluss.schema import Schema
from lakebed.fluss.types import DataType, TypeRoot
from lakebed.pipeline.streams.table_layout import create_statement, merge_statement, missing_columns

COLUMNS = [
    ("id", DataType(TypeRoot.BIGINT)),
    ("day", DataType(TypeRoot.STRING)),
    ("at", DataType(TypeRoot.TIMESTAMP, precision=3)),
]


def table(*, keyed: bool = False, **others: object) -> TableInfo:
    schema = Schema.of(COLUMNS, primary_key=["id", "day"] if keyed else [])
    return TableInfo("fluss", "t", 7, 1, schema, 4, **others)  # type: ignore[arg-type]


def test_stream_columns_precede_origin_columns() -> None:
    made = create_statement("`l`.`n`.`t`", table())
    assert (
        "(`id` bigint, `day` string, `at` timestamp_ntz, `__bucket` int NOT NULL, `__offset` bigint NOT NULL,"
        " `__timestamp` timestamp NOT NULL)" in made
    )
    assert "PARTITIONED BY (`__bucket`)" in made
    assert "'write.distribution-mode' = 'none'" in made


def test_partition_spec_follows_the_stream() -> None:
    assert "PARTITIONED BY (`day`, `__bucket`)" in create_statement("t", table(partition_keys=("day",)))
    icebergs = table(bucket_key=("id",), properties={"table.datalake.format": "iceberg"})
    assert "PARTITIONED BY (bucket(4, `id`))" in create_statement("t", icebergs)
    # Other bucketing functions differ from Iceberg's.
    assert "PARTITIONED BY (`__bucket`)" in create_statement("t", table(bucket_key=("id",)))


def test_added_columns_have_the_position_of_the_stream() -> None:
    assert missing_columns(table(), ["id", "day", "at", "__bucket", "__offset", "__timestamp"]) == []
    assert missing_columns(table(), ["day", "__bucket"]) == ["`id` bigint FIRST", "`at` timestamp_ntz AFTER `day`"]


def test_merge_applies_the_last_change_of_a_key() -> None:
    made = merge_statement("t", "changes", table(keyed=True))
    assert "PARTITION BY `id`, `day`, `__bucket` ORDER BY __offset DESC" in made
    assert "ON t.`id` = s.`id` AND t.`day` = s.`day` AND t.`__bucket` = s.`__bucket`" in made
    assert "WHEN MATCHED AND s._change_type = '-D' THEN DELETE" in made
    assert "WHEN NOT MATCHED AND s._change_type <> '-D' THEN INSERT" in made
